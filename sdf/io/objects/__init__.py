"""Stores with millions of objects: listed by ranges of keys."""

"""Database tables."""

"""Compressed files: where reading can start in them."""

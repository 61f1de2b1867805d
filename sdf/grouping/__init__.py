"""Pairs sorted by key in files: what `group_by_key` writes and `ReadGroups` reads."""

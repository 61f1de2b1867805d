"""Files as elements: found, pinned to their present state, split into ranges of bytes."""

"""Files as elements: found, pinned to what they were, cut into ranges of bytes."""

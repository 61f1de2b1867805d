"""Records in text files."""

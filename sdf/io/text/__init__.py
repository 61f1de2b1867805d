"""Records in text files and in pieces of a fixed length."""

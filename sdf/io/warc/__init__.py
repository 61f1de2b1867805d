"""WARC: the records of web archives."""

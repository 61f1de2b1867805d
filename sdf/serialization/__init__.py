"""How values travel between processes and are stored."""

"""How values are sent between processes and stored."""

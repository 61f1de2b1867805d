"""Where compressed files can be entered."""

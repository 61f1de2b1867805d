"""Files and directories that grow, for streams."""

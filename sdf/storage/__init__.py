"""Where the journal, the log of a saved run and staged files lie: a local or network disk, or an object store."""

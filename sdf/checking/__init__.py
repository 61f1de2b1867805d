"""What `sdf.testing.check_dofn` is made of: it splits a DoFn everywhere and compares what comes out."""

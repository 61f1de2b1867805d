"""The implementation of `sdf.testing.check_dofn`: it splits a DoFn everywhere and compares the records."""

"""Saved runs: what the driver logs so that another one can go on, and how a worker writes a segment. No Spark in it."""

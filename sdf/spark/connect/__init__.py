"""Runs on Spark Connect: stages are DataFrame jobs, and there is no RDD, no JVM gateway and no port of the driver.

`jobs` is a run and its stages, `tasks` is what workers run, `slots` finds out how many tasks run at once, `session` has
what a session is asked for beyond DataFrames.
"""

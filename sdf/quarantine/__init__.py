"""Quarantine: finds the blocks that fail and sets them aside, while all other work goes on.

`failures` has the values, `suspects` decides on the driver what runs next after a failure, and `child` runs work on a
worker in a process of its own, whose death costs nothing else.
"""

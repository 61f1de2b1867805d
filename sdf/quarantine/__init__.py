"""Quarantine: finds the blocks that fail and sets them aside, while all other work goes on.

`failures` has the values. `blocks` tells on a worker whether an error is the fault of a block. `suspects` decides on
the driver what runs next. So that a death costs nothing else, each attempt runs in a process of its own
(`sdf.spark.child`).
"""

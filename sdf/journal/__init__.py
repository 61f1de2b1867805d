"""The journal of a stream: what was read and what is left, on disk, so that a stream goes on after any crash.

``python -m sdf.journal show|verify|clean DIR`` prints, checks or cleans up a journal.
"""

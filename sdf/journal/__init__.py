"""The journal of a stream: what was read and what is left, kept so that a stream goes on after any crash.

``python -m sdf.journal show|verify|clean CHECKPOINT`` prints, checks or cleans up a journal.
"""

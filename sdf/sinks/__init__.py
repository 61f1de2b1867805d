"""Sinks of `save_sdf`: where the records go, and how they become visible exactly once."""

from sdf.sinks.sink import Place, Sink, SinkRun, Token

__all__ = ["Place", "Sink", "SinkRun", "Token"]

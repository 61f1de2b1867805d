"""Splittable DoFns of Apache Beam, run by every runner of sdf."""

from __future__ import annotations

from sdf.beam.dofn import from_beam

__all__ = ["from_beam"]

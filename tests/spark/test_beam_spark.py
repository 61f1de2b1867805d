"""DoFns of Beam on Spark: by stages, in lanes, and as streams."""


import pytest

pytest.importorskip("apache_beam")


from sdf import LiveRunner, StagedRunner
from sdf.journal import Journal  # noqa: F401

RUNNERS = [StagedRunner(budget_seconds=0.3, min_piece_seconds=0.05), LiveRunner(lanes=4)]

"""The runners that a call of run_sdf or save_sdf takes."""

from __future__ import annotations

from typing import Any

from sdf.errors import InvalidTypeError, show
from sdf.quarantine.options import Quarantine
from sdf.spark.live.runner import LiveRunner
from sdf.spark.row_elements import ConnectElements
from sdf.spark.staged.runner import StagedRunner

__all__ = ["check_runner"]


def check_runner(runner: Any, elements: Any, who: str, quarantine: Quarantine | None = None) -> None:
    """Raise InvalidTypeError unless a runner can run these elements, in this way.

    Args:
        runner: None for the default.
        elements: as `as_elements` returns them.
        who: name of the caller, for the message.
        quarantine: its options; None for a run without.
    """
    if runner is not None and not isinstance(runner, (StagedRunner, LiveRunner)):
        raise InvalidTypeError(
            f"{who} runner must be a StagedRunner or a LiveRunner (got {show(runner)}). Pass an instance, such as "
            f"runner=LiveRunner()."
        )
    if isinstance(runner, LiveRunner) and quarantine is not None:
        raise InvalidTypeError(
            f"{who} cannot set blocks aside with a LiveRunner (got {show(runner)}). Use StagedRunner(), or leave "
            f"runner= out."
        )
    if isinstance(runner, LiveRunner) and isinstance(elements, ConnectElements):
        raise InvalidTypeError(
            f"{who} cannot use a LiveRunner on Spark Connect: its lanes need a port of the driver, and a client has "
            f"none that the executors can reach (got {show(runner)}). Use StagedRunner(), or leave runner= out."
        )

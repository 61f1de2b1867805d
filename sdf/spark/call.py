"""A call of run_sdf or save_sdf, checked, as the runners get it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sdf.model.dofn import DoFn
from sdf.quarantine.options import Quarantine
from sdf.spark.display import Display

__all__ = ["Call"]


@attrs.frozen(eq=False)
class Call:
    """What a user's call asks a runner for.

    Attributes:
        elements: as `as_elements` returns them.
        fn: the DoFn.
        side_inputs: values by name.
        display: shows the progress, or None.
        quarantine: its options; None for a run without.
    """

    elements: Any
    fn: DoFn
    side_inputs: Mapping[str, Any]
    display: Display | None
    quarantine: Quarantine | None

    @property
    def name(self) -> str:
        """The name of the DoFn."""
        return type(self.fn).__name__

"""Libraries that a connector needs and sdf does not: imported when needed, missed by the name of their extra."""

from __future__ import annotations

import importlib
from typing import Any

from sdf.errors import MissingExtraError

__all__ = ["need"]


def need(module: str, extra: str, who: str) -> Any:
    """Return an imported module.

    Args:
        module: its dotted name.
        extra: the extra of sdf that brings it.
        who: the connector that needs it.

    Raises:
        MissingExtraError: if it is not installed, with the line that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise MissingExtraError(
            f"{who} needs {error.name}, which is not installed here. Install it with: pip install 'sdf[{extra}]' "
            f"(on the driver and on every executor)."
        ) from error

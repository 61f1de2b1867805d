"""Optional libraries of connectors and sinks: imported when needed; an error says how to install a missing one."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from sdf.errors import RUN_DOCTOR, MissingExtraError, how_to_install

__all__ = ["Library", "class_names", "need"]


def need(module: str, who: str) -> Any:
    """Return an imported module.

    Args:
        module: its dotted name, of a library in `sdf.errors.REQUIREMENTS`.
        who: the connector or sink that needs it.

    Raises:
        MissingExtraError: if it is not installed, with the command that installs it.
    """
    library = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or library != error.name.split(".")[0]:
            raise
        raise MissingExtraError(
            f"{who} needs {library}, which is not installed here. Install it with: {how_to_install(library)} "
            f"(on the driver and on every executor). {RUN_DOCTOR}"
        ) from error


class Library:
    """A module that is imported when one of its names is first used.

    Args:
        module, who: as for `need`.
    """

    def __init__(self, module: str, who: str) -> None:
        self._asked = module, who

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by whoever looks at objects of any kind, such as inspect
            raise AttributeError(name)
        return getattr(sys.modules.get(self._asked[0]) or need(*self._asked), name)


def class_names(value: Any) -> list[str]:
    """Return the dotted names of a value's class and of its bases, in this order. No library is imported."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]

"""Connector: a DoFn with options. An unknown option is an error that suggests the right one."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sdf import DoFn
from sdf.errors import InvalidTypeError, show

__all__ = ["Connector"]

# Options, and what other libraries call them; of several options that a connector has, the first is suggested.
_SYNONYMS = {
    "separator": "sep delimiter delim",
    "delimiter": "sep delim linesep lineterminator newline",
    "quotechar": "quote",
    "escapechar": "escape",
    "skipinitialspace": "ignoreleadingwhitespace",
    "quoted_newlines": "multiline",
    "reader_schema": "schema",
    "header": "names schema",
    "columns": "usecols select",
    "tag": "rowtag",
    "namespaces": "nsmap",
    "compression": "codec",
    "encoding": "charset codec",
    "on_error": "mode errors onbadlines",
    "length": "recordlength size",
    "block_size": "chunksize blocksize batchsize size",
    "chunk_rows": "chunksize batchsize fetchsize",
    "block_offsets": "blocksize batchsize",
    "page_size": "batchsize limit",
    "key": "partitioncolumn",
    "storage_options": "filesystem fs",
    "with_position": "includepath withfilename",
    "regex": "glob pathglobfilter",
    "recursive": "recursivefilelookup",
    "missing_ok": "ignoremissingfiles",
    "config": "bootstrapservers",
    "start": "startingoffsets autooffsetreset",
    "timeout_seconds": "timeout",
    "interval_seconds": "interval",
    "poll_seconds": "interval poll",
}
_PATHS = {"path", "paths", "file", "files", "filename", "table", "topic", "topics", "dbtable"}


class Connector(DoFn):
    """A DoFn whose options are the arguments of its ``__init__``; if that has ``**options``, of base classes too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls) and _is_ours(cls):
            cls.__init__ = _telling(cls.__init__)  # type: ignore[method-assign]

    @classmethod
    def option_names(cls) -> set[str]:
        """Return the names of all options."""
        names: set[str] = set()
        for kind in cls.__mro__[:-1]:
            if "__init__" in vars(kind):
                parameters = _parameters(vars(kind)["__init__"])
                names.update(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
                if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                    break
        return names


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("sdf.io.")


@functools.cache  # a tenth of a millisecond for each connector that is made
def _parameters(init: Callable[..., None]) -> list[inspect.Parameter]:
    return list(inspect.signature(init).parameters.values())[1:]


def _telling(init: Callable[..., None]) -> Callable[..., None]:
    """Return an ``__init__`` that first checks its arguments, if no connector class of sdf overrides it.

    A user's subclass may take any arguments; those that it passes on are checked.
    """

    @functools.wraps(init)
    def telling(self: Connector, *given: Any, **options: Any) -> None:
        ours = [kind for kind in type(self).__mro__ if issubclass(kind, Connector) and _is_ours(kind)]
        if next(vars(kind)["__init__"] for kind in ours if "__init__" in vars(kind)) is telling:
            _check(ours[0], init, given, options)
        init(self, *given, **options)

    return telling


def _check(kind: type[Connector], init: Callable[..., None], given: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise InvalidTypeError if an option is unknown, missing, or passed without its name."""
    who, names = kind.__name__, kind.option_names()
    for name, value in options.items():
        if name not in names:
            got = f"{name}={'...' if _is_secret(name) else show(value, 80)}"
            raise InvalidTypeError(
                f"{who} has no option {name!r} (got {got}). {_meant(who, name, names)}"
                f"Its options are {', '.join(sorted(names))}."
            )
    parameters = _parameters(init)
    places = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(given) > len(places):
        raise InvalidTypeError(
            f"{who} takes {f'only {places[0]}' if places else 'no option'} without its name (got "
            f"{show(given[len(places)], 80)}). {_elements(who)}"
        )
    done = {*places[: len(given)], *options}
    missing = [f"{each.name}=" for each in parameters if _is_required(each) and each.name not in done]
    if missing:
        raise InvalidTypeError(f"{who} needs {' and '.join(missing)}: see help({who}).")


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def _is_secret(name: str) -> bool:
    return any(part in name.lower() for part in ("password", "secret", "token", "key"))


def _elements(who: str) -> str:
    return f"What to read is no option but the elements, as in run_sdf(sc.parallelize([...]), {who}(...))."


def _meant(who: str, name: str, names: set[str]) -> str:
    plain = name.lower().replace("_", "")
    if plain in _PATHS:
        return f"{_elements(who)} "
    known = [meant for meant, others in _SYNONYMS.items() if meant in names and plain in others.split()]
    close = known or difflib.get_close_matches(name.lower(), sorted(names), n=1)
    return f"Did you mean {close[0]}=? " if close else ""

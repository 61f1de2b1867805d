"""The exceptions of sdf: one tree, every member also the built-in that a caller would catch.

::

    SdfError
    |-- InvalidTypeError        TypeError      an argument of the wrong type
    |-- InvalidValueError       ValueError     an argument of the right type and a wrong value
    |   `-- UnboundedError                     work without an end where only finite work can run
    |-- UnpicklableError        TypeError      something cannot be sent to the workers
    |-- ContractError           RuntimeError   a DoFn or its tracker broke a rule of splitting
    |   |-- ClaimError          ValueError     a claim out of order, out of range or after a refusal
    |   |-- UnclaimedWorkError                 process() returned before everything was claimed
    |   |-- OutputError                        an output that belongs to no claimed block
    |   |-- DeferError                         defer_remainder() that cannot be honoured
    |   |-- SplitError                         parts that do not add up to what was split
    |   |-- WatermarkError      ValueError     a watermark that went backwards
    |   `-- CheckError          AssertionError check_dofn() found broken rules
    |-- ProcessError            RuntimeError   the user's own code raised
    |-- MissingExtraError       ImportError    a library that sdf does not bring is needed and not installed
    |-- SourceError             OSError        what is to be read is not there
    |   `-- SourceChangedError                 it is not what it was when the run was planned
    |-- ReadError               ValueError     what was read is not what the format allows
    |-- JournalError            RuntimeError   the journal of a stream cannot be gone on with
    |   |-- JournalCorruptError ValueError     a file of it is missing, or not what was written
    |   |-- JournalDiskError    OSError        it cannot be written: the disk is full or read-only
    |   |-- JournalFencedError                 another driver has committed the batch
    |   `-- JournalRuleError    ValueError     a block that does not follow from the one before
    |-- StageError              RuntimeError   Spark could not run a stage
    |-- CoordinatorError        ConnectionError  a lane cannot reach the driver, or lost it
    `-- LedgerError             RuntimeError   the record of who owns what does not add up
        |-- TilingError                        committed parts leave a gap or overlap
        `-- ReplayError                        a pinned part gave something else when it ran again

Every message says who broke which rule, with what value, where, and how to mend it. All of them are built from
one string, so that they survive pickling and can be raised again with more context.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

__all__ = [
    "CheckError",
    "ClaimError",
    "ContractError",
    "CoordinatorError",
    "DeferError",
    "InvalidTypeError",
    "InvalidValueError",
    "JournalCorruptError",
    "JournalDiskError",
    "JournalError",
    "JournalFencedError",
    "JournalRuleError",
    "LedgerError",
    "MissingExtraError",
    "OutputError",
    "ProcessError",
    "ReadError",
    "ReplayError",
    "SdfError",
    "SourceChangedError",
    "SourceError",
    "SplitError",
    "StageError",
    "TilingError",
    "UnboundedError",
    "UnclaimedWorkError",
    "UnpicklableError",
    "WatermarkError",
]

# What the extras in setup.cfg bring, by the name that is imported; a test compares the two.
REQUIREMENTS = {
    "apache_beam": "apache-beam>=2.60",
    "confluent_kafka": "confluent-kafka>=2.3",
    "fastavro": "fastavro>=1.9",
    "fsspec": "fsspec>=2023.12",
    "lmdb": "lmdb>=1.4",
    "pyarrow": "pyarrow>=14",
    "rapidgzip": "rapidgzip>=0.16",
    "sqlalchemy": "sqlalchemy>=2",
    "tqdm": "tqdm>=4.65",
    "zstandard": "zstandard>=0.22",
}


class SdfError(Exception):
    """Anything that sdf itself raises."""

    has_context = False  # set once the message names the DoFn, element and restriction


class InvalidTypeError(SdfError, TypeError):
    """An argument, or a value that a DoFn returned, has the wrong type."""


class InvalidValueError(SdfError, ValueError):
    """An argument, or a value that a DoFn returned, has the right type and a wrong value."""


class UnboundedError(InvalidValueError):
    """A restriction has no end, and the caller runs finite work only."""


class UnpicklableError(SdfError, TypeError):
    """A DoFn, a side input or a restriction cannot be sent to the Python workers."""


class ContractError(SdfError, RuntimeError):
    """A DoFn or its tracker broke one of the rules that make splitting safe."""


class ClaimError(ContractError, ValueError):
    """A claim came out of order, before the start, with a wrong type, or after a refused claim."""


class UnclaimedWorkError(ContractError):
    """process() returned while part of its restriction was neither claimed nor deferred."""


class OutputError(ContractError):
    """process() gave an output before its first claim, after a refused one, or for an unknown tag."""


class DeferError(ContractError):
    """defer_remainder() was called where nothing can be deferred."""


class SplitError(ContractError):
    """The parts that a tracker or split_restriction() returned do not add up to what was split."""


class WatermarkError(ContractError, ValueError):
    """A watermark would have gone backwards."""


class CheckError(ContractError, AssertionError):
    """check_dofn() found that a DoFn breaks rules; the message lists each with the split that broke it."""


class ProcessError(SdfError, RuntimeError):
    """Code of the user's DoFn raised; the cause is the original exception or, from a worker, its traceback."""


class MissingExtraError(SdfError, ImportError):
    """A library that sdf does not bring is needed and not installed; the message says how to install it."""


class SourceError(SdfError, OSError):
    """What a connector is to read is not there, or is not something that it can read."""


class SourceChangedError(SourceError):
    """A file has gone, shrunk or changed since the run was planned; `sdf.io.FileInfo` says what is not noticed."""


class ReadError(SdfError, ValueError):
    """What was read is not what the format allows; the message names file, offset and cause."""


class JournalError(SdfError, RuntimeError):
    """The journal of a stream cannot be gone on with."""


class JournalCorruptError(JournalError, ValueError):
    """A file of a journal is missing, or it is not what was written. A crash does not do that."""


class JournalDiskError(JournalError, OSError):
    """A journal cannot be written: the disk is full, read-only or broken. What is committed stays committed."""


class JournalFencedError(JournalError):
    """Another driver runs on the same checkpoint and has committed the batch first."""


class JournalRuleError(JournalError, ValueError):
    """A block does not follow from the block before it; it was not written."""


class StageError(SdfError, RuntimeError):
    """Spark could not finish a stage for a reason that is not the DoFn's."""


class CoordinatorError(SdfError, ConnectionError):
    """A lane cannot reach the coordinator on the driver, or lost its connection: the attempt does not count."""


class LedgerError(SdfError, RuntimeError):
    """The record of who owns which part was used in a way that would break it."""


class TilingError(LedgerError):
    """The committed parts of an element leave a gap or overlap; the result is withheld."""


class ReplayError(LedgerError):
    """A pinned part gave another number of records when it ran again: process() is not deterministic."""


def how_to_install(library: str) -> str:
    """Return the command that installs a library of an extra, for use in a message.

    It names the library and not the extra: sdf itself may have come from a checkout, a wheel or an archive.

    Args:
        library: the name that is imported.
    """
    return f"pip install '{REQUIREMENTS[library]}'"


def show(value: object, limit: int = 200, path: str = "") -> str:
    """Return ``repr(value)`` for use in a message: on one line, cut in the middle beyond ``limit`` characters.

    Args:
        value: what is shown.
        limit: characters.
        path: one that the message names elsewhere; ``...`` stands for it.
    """
    try:
        text = without(path, repr(value)) if path else repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"
    if len(text) > limit:
        text = f"{text[: limit - 40]}...{text[-37:]}"
    if not text.isprintable():  # line ends, codes for terminals, halves of characters
        text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return text


def without(path: str, text: str) -> str:
    """Return a text with ``...`` for a path that the message names elsewhere."""
    text = text.replace(repr(path), "...")
    return text.replace(path, "...") if "/" in path.strip("/") else text  # a bare name may be a part of any word


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<a message that cannot be shown, {type(failure).__name__}>"


def _path_of(element: object) -> str:
    """Return the path by which an element is known, "" if it has none."""
    try:
        is_path = isinstance(element, str) or hasattr(element, "__fspath__")
        path = str(element) if is_path else getattr(element, "path", "")
    except Exception:  # of a property
        return ""
    return path if isinstance(path, str) else ""


class blame:  # noqa: N801, reads as a statement
    """Context manager that names the user's method, restriction and element in whatever is raised inside.

    An error of this tree keeps its class; anything else becomes a `ProcessError` caused by it. An error that has its
    context already passes unchanged, and so does what is no `Exception`, SystemExit apart.

    Args:
        where: gives the "who and where" of the message; called only on failure.
        work: the element that it was about, and perhaps a restriction of it. Where a `SourceError` or a `ReadError`
            names the path of the element, that is not told again.
    """

    __slots__ = ("_where", "_work")

    def __init__(self, where: Callable[[], str], *work: object) -> None:
        self._where = where
        self._work = work

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, (Exception, SystemExit)):
            return
        if not isinstance(error, SdfError) or type(error).__module__ != SdfError.__module__:
            explained: SdfError = ProcessError(f"{self._context('')} raised {type(error).__name__}: {_text(error)}")
        elif error.has_context:
            return
        else:
            read = isinstance(error, (ReadError, SourceError))
            explained = type(error)(f"{self._context(str(error) if read else '')}: {error}")
        explained.has_context = True
        raise explained from error

    def _context(self, message: str) -> str:
        """Return who, where and on what, but for the path that the message names, and what is told by then."""
        where = self._where()
        if not self._work:
            return where
        element, *restriction = self._work
        path = _path_of(element)
        if not message.startswith((f"{path} ", f"{path}:", f"{path},")) and repr(path) not in message:
            path = ""
        where += "".join(f" on {show(one, path=path)}" for one in restriction)
        shown = show(element, path=path)
        return where if path and (shown == "..." or shown in where) else f"{where} of element {shown}"

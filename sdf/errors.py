"""The exceptions of sdf: one tree. Each but the root is also the built-in that a caller would catch.

::

    SdfError
    |-- InvalidTypeError        TypeError      an argument of the wrong type
    |-- InvalidValueError       ValueError     an argument of the right type with a wrong value
    |   `-- UnboundedError                     work without an end, where only finite work can run
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
    |   `-- TooManyFailuresError               more blocks failed than max_failures
    |-- MissingExtraError       ImportError    an optional library is needed but not installed
    |-- SourceError             OSError        the input does not exist or cannot be read
    |   |-- SourceAwayError                    the server of the input does not answer
    |   `-- SourceChangedError                 the input changed after the run was planned
    |-- ReadError               ValueError     the data does not follow its format
    |-- SinkError               OSError        the results cannot be written or committed
    |-- BadRecordError          ValueError     a sink cannot write a record
    |-- JournalError            RuntimeError   the journal of a stream cannot be continued
    |   |-- JournalCorruptError ValueError     a journal file is missing or does not hold what was written
    |   |-- JournalDiskError    OSError        a journal cannot be used: the disk is full, the store away
    |   |-- JournalFencedError                 another driver has committed the batch
    |   `-- JournalRuleError    ValueError     a block that does not follow from the block before it
    |-- StageError              RuntimeError   Spark could not run a stage
    |-- CoordinatorError        ConnectionError  a lane cannot reach the driver, or lost it
    `-- LedgerError             RuntimeError   a call would have broken the ledger
        |-- TilingError                        committed parts leave a gap or overlap
        `-- ReplayError                        a pinned part gave different records when it ran again

Every message says who broke which rule, with what value, where, and how to fix it. Every exception is built from one
string, so it survives pickling and can be raised again with more context.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = [
    "BadRecordError",
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
    "SinkError",
    "SourceAwayError",
    "SourceChangedError",
    "SourceError",
    "SplitError",
    "StageError",
    "TilingError",
    "TooManyFailuresError",
    "UnboundedError",
    "UnclaimedWorkError",
    "UnpicklableError",
    "WatermarkError",
]

_package = sys.modules["sdf"]
if getattr(_package, "__distribution__", "") != "pyspark-sdf":
    raise ImportError(
        f"{_package.__file__} belongs to another distribution that brings a package named sdf: it has replaced that of "
        f"pyspark-sdf. The two cannot share an environment. Uninstall the other one with "
        f"`pip uninstall sdf`, and install this one again with --force-reinstall."
    )

# The requirements of the extras in setup.cfg, by the name that is imported; a test compares the two.
REQUIREMENTS = {
    "adlfs": "adlfs>=2024.12",
    "apache_beam": "apache-beam>=2.60",
    "confluent_kafka": "confluent-kafka>=2.3",
    "deltalake": "deltalake>=1.6",
    "fastavro": "fastavro>=1.9",
    "fsspec": "fsspec>=2023.12",
    "gcsfs": "gcsfs>=2024.12",
    "lmdb": "lmdb>=1.4",
    "pyarrow": "pyarrow>=15",
    "pyiceberg": "pyiceberg>=0.12",
    "rapidgzip": "rapidgzip>=0.16",
    "requests": "requests>=2",
    "s3fs": "s3fs>=2024.12",
    "sqlalchemy": "sqlalchemy>=2",
    "tqdm": "tqdm>=4.65",
    "zstandard": "zstandard>=0.22",
}

# The end of each error about the environment: libraries, ports, places.
RUN_DOCTOR = "Run `sdf doctor` to see what does not fit here (docs/doctor.md)."


class SdfError(Exception):
    """Anything that sdf itself raises."""

    has_context = False  # set once the message names the DoFn, element and restriction


class InvalidTypeError(SdfError, TypeError):
    """An argument, or a value that a DoFn returned, has the wrong type."""


class InvalidValueError(SdfError, ValueError):
    """An argument, or a value that a DoFn returned, has the right type but a wrong value."""


class UnboundedError(InvalidValueError):
    """A restriction has no end, but the caller runs only finite work."""


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


class TooManyFailuresError(ProcessError):
    """With on_failure=Quarantine(): more blocks failed than max_failures; the message has the first errors."""


class MissingExtraError(SdfError, ImportError):
    """An optional library is needed but not installed; the message says how to install it."""


class SourceError(SdfError, OSError):
    """The input of a connector does not exist, or the connector cannot read it."""


class SourceAwayError(SourceError):
    """The server of a connector's input does not answer; it may do so later."""


class SourceChangedError(SourceError):
    """A file was removed, shrank or changed after the run was planned; `sdf.io.FileInfo` says what goes unnoticed."""


class ReadError(SdfError, ValueError):
    """The data does not follow its format; the message names file, offset and cause."""


class SinkError(SdfError, OSError):
    """The results of a run cannot be written or committed; a saved run stays resumable."""


class BadRecordError(SdfError, ValueError):
    """A sink cannot write a record; ``number`` says which of the segment's records it is, from 0, if the sink knows."""

    number: int | None = None
    output = "main"


class JournalError(SdfError, RuntimeError):
    """The journal of a stream cannot be continued."""


class JournalCorruptError(JournalError, ValueError):
    """A journal file is missing or does not hold what was written; a crash cannot cause that."""


class JournalDiskError(JournalError, OSError):
    """A journal cannot be used: a disk is full or read-only, a store out of reach; committed batches stay committed."""


class JournalFencedError(JournalError):
    """Another driver runs on the same checkpoint and has committed the batch first."""


class JournalRuleError(JournalError, ValueError):
    """A block does not follow from the block before it; it was not written."""


class StageError(SdfError, RuntimeError):
    """Spark could not finish a stage, for a reason outside the DoFn."""


class CoordinatorError(SdfError, ConnectionError):
    """A lane cannot reach the coordinator on the driver, or lost its connection: the attempt does not count."""


class LedgerError(SdfError, RuntimeError):
    """A call would have broken the ledger, the record of who owns which part."""


class TilingError(LedgerError):
    """The committed parts of an element leave a gap or overlap; the result is withheld."""


class ReplayError(LedgerError):
    """A pinned part gave a different number of records when it ran again: process() is not deterministic."""


def how_to_install(library: str) -> str:
    """Return the command that installs a library of an extra, for use in a message.

    It names the library, not the extra, because sdf itself may be installed from a checkout, a wheel or an archive.

    Args:
        library: the name that is imported.
    """
    return f"pip install '{REQUIREMENTS[library]}'"


def show(value: object, limit: int = 200, path: str = "") -> str:
    """Return ``repr(value)`` for use in a message: on one line, cut in the middle beyond ``limit`` characters.

    Args:
        value: the value to show.
        limit: the most characters.
        path: a path that the message already names elsewhere; it is shown as ``...``.
    """
    try:
        text = without(path, repr(value)) if path else repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"
    if len(text) > limit:
        text = f"{text[: limit - 40]}...{text[-37:]}"
    if not text.isprintable():  # line ends, terminal codes, lone surrogates
        text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return text


def show_both(one: object, other: object, limit: int = 200) -> tuple[str, str]:
    """Return two different values for use in a message: of dicts what differs, of long texts from there on."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in {**one, **other} if name not in one or name not in other or one[name] != other[name]]
        one, other = ({name: each[name] for name in names if name in each} for each in (one, other))
    texts = tuple(show(value, 1 << 16) for value in (one, other))
    same = next((at for at, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, same - limit // 4) if max(map(len, texts)) > limit else 0
    found = [f"{'...' * bool(start)}{text[start:]}" for text in texts]
    first, second = (text if len(text) <= limit else f"{text[: limit - 3]}..." for text in found)
    return first, second


def without(path: str, text: str) -> str:
    """Return a text in which ``...`` replaces a path that the message already names elsewhere."""
    text = text.replace(repr(path), "...")
    return text.replace(path, "...") if "/" in path.strip("/") else text  # a bare name may occur inside any word


def text_of(error: BaseException) -> str:
    """Return ``str(error)``, also if that raises."""
    try:
        return str(error)
    except Exception as failure:
        return f"<a message that cannot be shown, {type(failure).__name__}>"


def _path_of(element: object) -> str:
    """Return the path of an element: itself or its ``path`` attribute; "" if it has none."""
    try:
        is_path = isinstance(element, str) or hasattr(element, "__fspath__")
        path = str(element) if is_path else getattr(element, "path", "")
    except Exception:  # a property may raise
        return ""
    return path if isinstance(path, str) else ""


class blame:  # noqa: N801, reads as a statement
    """Context manager that names the user's method, restriction and element in whatever is raised inside.

    An error class of this module is kept; any other exception becomes the cause of a `ProcessError`. Passed on
    unchanged: an error that already has its context, and a BaseException that is neither Exception nor SystemExit.

    Args:
        where: returns the "who and where" of the message; called only on failure.
        work: the element, and optionally a restriction of it. If a `SourceError` or a `ReadError` already names the
            path of the element, the path is not repeated.
    """

    __slots__ = ("_where", "_work")

    def __init__(self, where: Callable[[], str], *work: object) -> None:
        self._where = where
        self._work = work

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        has_context = isinstance(error, SdfError) and error.has_context
        if isinstance(error, (Exception, SystemExit)) and not has_context:
            raise self.named(error) from error

    def named(self, error: BaseException) -> SdfError:
        """Return the error to raise in place of one that says nothing of the method, restriction and element."""
        if not isinstance(error, SdfError) or type(error).__module__ != SdfError.__module__:
            explained: SdfError = ProcessError(f"{self._context('')} raised {type(error).__name__}: {text_of(error)}")
        else:
            read = isinstance(error, (ReadError, SourceError))
            explained = type(error)(f"{self._context(str(error) if read else '')}: {error}")
        explained.has_context = True
        return explained

    def _context(self, message: str) -> str:
        """Return who, where, restriction and element, without repeating the path or the element."""
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

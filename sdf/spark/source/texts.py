"""Texts: how text becomes values of a column, for records whose values are text, such as those of CSV."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs
import pyarrow  # type: ignore[import-untyped]
import pyarrow.compute  # type: ignore[import-untyped]

from sdf.errors import InvalidValueError, show

__all__ = ["Texts"]

_MODES = ("FAILFAST", "PERMISSIVE")
_KINDS = ("string", "integer", "floating", "decimal", "boolean", "date", "timestamp")  # pyarrow.types.is_...


@attrs.frozen
class Texts:
    """Casts text to the types of columns.

    An empty text is null, unless the column is one of texts. A text that does not cast is an error, or null.

    Attributes:
        null_text: the text that stands for null in every column; None for none.
        bad_is_null: whether a text that does not cast is null, as in Spark's mode PERMISSIVE.
        zone: the zone of times that name none, such as ``"Europe/Berlin"``; None for that of the Python workers.
    """

    null_text: str | None = None
    bad_is_null: bool = False
    zone: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], who: str) -> Texts:
        """Return what the options of a read say, which have the names of those of Spark's own formats.

        Raises:
            InvalidValueError: for a mode or a zone that there is not.
        """
        mode, zone = options.get("mode", "FAILFAST"), options.get("timeZone")
        if mode.upper() not in _MODES:
            raise InvalidValueError(
                f"the option mode of the data source {who!r} must be 'FAILFAST', where a text that is no value of its "
                f"column is an error, or 'PERMISSIVE', where it is null (got {show(mode)})."
            )
        texts = cls(options.get("nullValue"), mode.upper() == "PERMISSIVE", zone)
        try:
            texts._cast(pyarrow.array(["2026-01-01"]), pyarrow.timestamp("us", "UTC"))
        except pyarrow.ArrowException as error:
            raise InvalidValueError(
                f"the option timeZone of the data source {who!r} must be a zone such as 'Europe/Berlin' (got "
                f"{show(zone)}): {error}"
            ) from error
        return texts

    def casts_to(self, kind: pyarrow.DataType) -> bool:
        """Return whether there are texts that cast to a type."""
        return any(getattr(pyarrow.types, f"is_{name}")(kind) for name in _KINDS)

    def matter_in(self, kind: pyarrow.DataType) -> bool:
        """Return whether `cast` may change the texts of a column."""
        return self.casts_to(kind) and not (self.null_text is None and pyarrow.types.is_string(kind))

    def cast(self, texts: pyarrow.Array, kind: pyarrow.DataType) -> tuple[pyarrow.Array, list[int]]:
        """Return the values of texts, and the rows of those that do not cast.

        Args:
            texts: an array of strings.
            kind: a type that texts cast to.
        """
        texts = texts if self.null_text is None else _without(texts, self.null_text)
        if pyarrow.types.is_string(kind):
            return texts, []
        texts = _without(texts, "")
        try:
            return self._cast(texts, kind), []
        except pyarrow.ArrowInvalid:
            pass  # some do not cast; most columns have few different ones
        coded = texts.dictionary_encode()
        known = pyarrow.array([self._one(text, kind) for text in coded.dictionary], kind)
        values = known.take(coded.indices)
        if self.bad_is_null:
            return values, []
        bad = pyarrow.compute.and_(values.is_null(), texts.is_valid())
        return values, pyarrow.compute.indices_nonzero(bad).to_pylist()

    def _one(self, text: pyarrow.Scalar, kind: pyarrow.DataType) -> Any:
        try:
            return self._cast(pyarrow.array([text]), kind)[0]
        except pyarrow.ArrowInvalid:
            return None

    def _cast(self, texts: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
        if pyarrow.types.is_integer(kind):
            _refuse(pyarrow.compute.match_substring(texts, "x", ignore_case=True))  # 0x1F, which is no number elsewhere
        if pyarrow.types.is_floating(kind):
            values = texts.cast(kind)
            named = pyarrow.compute.match_substring(texts, "inf", ignore_case=True)
            _refuse(pyarrow.compute.and_not(pyarrow.compute.is_inf(values), named))  # a number that is too large
            return values
        if not pyarrow.types.is_timestamp(kind) or kind.tz is None:
            return texts.cast(kind)
        local = pyarrow.timestamp(kind.unit)
        try:
            texts.drop_null()[:1].cast(local)  # of a whole column it would take long to fail
        except pyarrow.ArrowInvalid:
            return texts.cast(kind)  # each names its zone
        times = texts.cast(local)
        zone = self.zone or ("UTC" if not time.timezone and not time.daylight else None)
        if zone is None:
            return pyarrow.array([None if one is None else one.astimezone() for one in times.to_pylist()], kind)
        at = pyarrow.compute.assume_timezone(times, zone, ambiguous="earliest", nonexistent="latest")
        return at.cast(kind)


def _refuse(texts: pyarrow.BooleanArray) -> None:
    if _any(texts):
        raise pyarrow.ArrowInvalid("a text that other programs do not take for a number")


def _any(found: pyarrow.BooleanArray) -> bool:
    return bool(pyarrow.compute.any(found).as_py())  # true_count of what was computed ends the process with PyArrow 15


def _without(texts: pyarrow.Array, text: str) -> pyarrow.Array:
    """Return texts with null for those that are ``text``."""
    found = pyarrow.compute.equal(texts, text)
    if not _any(found):
        return texts
    return pyarrow.compute.if_else(found, pyarrow.scalar(None, texts.type), texts)

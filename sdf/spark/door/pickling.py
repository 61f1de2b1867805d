"""PySpark's pickler, its own copy of cloudpickle in all versions, and the serializer of an RDD's records."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.serializers import BatchedSerializer, CloudPickleSerializer

__all__ = ["Pickler", "dumps", "serializer_with"]

Pickler: Any = cloudpickle.Pickler
dumps: Callable[[Any], bytes] = cloudpickle.dumps


class _Pickles(CloudPickleSerializer):
    """PySpark's serializer with a function of ours for its `dumps`; equal to PySpark's, as what it writes is."""

    def __init__(self, function: Callable[[Sequence[Any]], bytes]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._function = function

    def dumps(self, obj: Sequence[Any]) -> bytes:
        return self._function(obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CloudPickleSerializer)

    def __repr__(self) -> str:
        return "CloudPickleSerializer()"

    __hash__ = CloudPickleSerializer.__hash__


def serializer_with(serializer: Any, function: Callable[[Sequence[Any]], bytes]) -> Any:
    """Return a SparkContext's serializer that pickles records with a function; unchanged if it is not the default."""
    if not isinstance(serializer, BatchedSerializer) or type(serializer.serializer) is not CloudPickleSerializer:
        return serializer
    named = copy.copy(serializer)
    named.serializer = _Pickles(function)
    return named

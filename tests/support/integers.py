"""Numbers that are no int and no float, as NumPy's are: for the tests of all that takes offsets, counts and seconds."""

from fractions import Fraction

import pytest

__all__ = ["KINDS", "NUMBER_KINDS"]


class Int:
    """An integer that only says which it is."""

    def __init__(self, value):
        self._value = value

    def __index__(self):
        return self._value


def of_numpy(value):
    return pytest.importorskip("numpy").int64(value)


def short_float(value):
    return pytest.importorskip("numpy").float32(value)


KINDS = pytest.mark.parametrize("kind", [Int, of_numpy], ids=["__index__", "numpy"])
NUMBER_KINDS = pytest.mark.parametrize(
    "kind", [Int, of_numpy, Fraction, short_float], ids=["__index__", "numpy", "fraction", "numpy-float32"]
)

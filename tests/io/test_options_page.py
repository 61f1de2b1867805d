"""The page of all options: made from the docstrings, in step with them, and with a sentence for each option."""

import importlib.util
from pathlib import Path

import pytest

from sdf.io import ReadCsv, ReadLines, TailLines, WatchFiles

SCRIPT = Path(__file__).parents[2] / "docs" / "options.py"


def loaded():
    spec = importlib.util.spec_from_file_location("options", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPTIONS = loaded()


@pytest.mark.parametrize("kind", OPTIONS.connectors(), ids=lambda kind: kind.__name__)
def test_every_option_has_a_sentence(kind):
    """In the docstring of the connector, or of the class that the option comes from."""
    names = [name for name, _ in OPTIONS.options(kind)]
    assert sorted(names) == sorted(kind.option_names())
    meanings = {name: OPTIONS.meaning(kind, name) for name in names}
    assert [name for name, text in meanings.items() if not text or not text.endswith(".")] == []


def test_the_page_is_what_the_docstrings_say():
    """`make docs` writes it again."""
    assert SCRIPT.with_suffix(".md").read_text() == OPTIONS.page()


@pytest.mark.parametrize(
    ("kind", "name", "begin"),
    [
        (ReadCsv, "separator", "the character between"),  # its own
        (ReadCsv, "max_record_bytes", "a longer record"),  # of a class above it
        (ReadCsv, "errors", "what becomes of bytes"),  # of the class that it names
        (TailLines, "compression", '``"infer"``, or None if'),  # its own, though a class above has another
        (WatchFiles, "regex", "only files"),  # passed on
    ],
)
def test_where_a_sentence_comes_from(kind, name, begin):
    """From where a reader of the docstring would find it."""
    assert OPTIONS.meaning(kind, name).startswith(begin)


def test_an_option_without_a_sentence_is_noticed():
    """It has none, and nothing is made up."""

    class MineFn(ReadLines):
        """Reads.

        Args:
            mine: a sentence.
        """

        def __init__(self, *, mine=1, other=2, **options):
            super().__init__(**options)

    assert [OPTIONS.meaning(MineFn, name) for name in ("mine", "other")] == ["a sentence.", None]


@pytest.mark.parametrize(
    ("kind", "name", "default"),
    [
        (WatchFiles, "missing_ok", "`True`"),  # another than that of MatchFiles
        (WatchFiles, "hidden", "`False`"),
        (ReadLines, "max_record_bytes", "256 MiB"),
    ],
)
def test_the_default_is_that_of_the_connector(kind, name, default):
    """And shown so that people can read it."""
    assert OPTIONS.shown(dict(OPTIONS.options(kind))[name]) == default

"""The page of all options: made from the docstrings, in step with them, and with a sentence for each option."""

import importlib.util
from itertools import chain
from pathlib import Path

import pytest

import sdf.sinks
from sdf import LiveRunner, StagedRunner, save_sdf
from sdf.io import ReadCsv, ReadLines, TailLines, WatchFiles
from sdf.sinks import DeltaTable, IcebergTable, ParquetFiles

SCRIPT = Path(__file__).parents[2] / "docs" / "options.py"


def loaded():
    spec = importlib.util.spec_from_file_location("options", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPTIONS = loaded()


@pytest.mark.parametrize("kind", [*chain(*OPTIONS.sections().values())], ids=lambda kind: kind.__name__)
def test_every_option_has_a_sentence(kind):
    """In the docstring of the function or class, or of the class that the option comes from."""
    names = [name for name, _ in OPTIONS.options(kind)]
    meanings = {name: OPTIONS.meaning(kind, name) for name in names}
    assert [name for name, text in meanings.items() if not text or not text.endswith(".")] == []


@pytest.mark.parametrize("kind", OPTIONS.connectors(), ids=lambda kind: kind.__name__)
def test_no_option_of_a_connector_is_left_out(kind):
    """Also those that it passes on to the classes above it."""
    assert sorted(name for name, _ in OPTIONS.options(kind)) == sorted(kind.option_names())


def test_every_sink_has_its_options_there():
    """But not the base class, nor the values that a sink of one's own is given."""
    left_out = {*sdf.sinks.__all__} - {kind.__name__ for kind in OPTIONS.sinks()}
    assert left_out == {"Sink", "SinkRun", "Place", "Token"}


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
        (DeltaTable, "row_group_bytes", "end a row group"),  # of the sink that it names
        (save_sdf, "commit_seconds", "how long a worker writes"),  # of a function
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
        (save_sdf, "commit_seconds", "`60.0`"),
        (LiveRunner, "port", "`0`"),
        (StagedRunner, "storage_level", "`StorageLevel.MEMORY_AND_DISK`"),
        (ParquetFiles, "path", "required"),
        (IcebergTable, "schema", "`None`"),
    ],
)
def test_the_default_is_that_of_the_signature(kind, name, default):
    """And shown so that people can read it."""
    assert OPTIONS.shown(dict(OPTIONS.options(kind))[name]) == default

"""Options of the connectors: one that there is not is told where the connector is made, with the one that was meant."""

import copy
import inspect
import re

import cloudpickle
import pytest

import sdf.io
from sdf import DoFn
from sdf.errors import InvalidTypeError
from sdf.io import (
    ListObjects,
    MatchFiles,
    ReadAvro,
    ReadCsv,
    ReadJson,
    ReadJsonLines,
    ReadKafka,
    ReadLines,
    ReadLmdb,
    ReadPages,
    ReadParquet,
    ReadRecords,
    ReadSlices,
    ReadTable,
    ReadTar,
    ReadWarc,
    ReadXml,
    TailLines,
    TailTable,
    WatchFiles,
    WatchTopics,
)

CONNECTORS = [
    kind
    for _, kind in sorted(vars(sdf.io).items())
    if inspect.isclass(kind) and issubclass(kind, DoFn) and not inspect.isabstract(kind)
]


class MineFn(ReadCsv):
    """A user's reader with an option of its own."""

    def __init__(self, **options):
        self.mine = options.pop("mine", None)
        super().__init__(**options)


class BareFn(ReadLines):
    """A user's reader without one."""


def said(kind, *given, **options):
    with pytest.raises(InvalidTypeError) as caught:
        kind(*given, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", CONNECTORS, ids=lambda kind: kind.__name__)
def test_an_option_that_there_is_not_is_told_by_each_connector(kind):
    """It names the class that was made, the option and its value, and not a class above it."""
    text = said(kind, speling=1)
    assert text.startswith(f"{kind.__name__} has no option 'speling' (got speling=1). ")


@pytest.mark.parametrize("kind", CONNECTORS, ids=lambda kind: kind.__name__)
def test_all_options_are_listed(kind):
    """Those of the classes above too, where they are passed on."""
    text = said(kind, speling=1)
    assert text.endswith(f"Its options are {', '.join(sorted(kind.option_names()))}.")


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (ReadCsv, "sep", "separator"),
        (ReadCsv, "delimiter", "separator"),
        (ReadCsv, "multiLine", "quoted_newlines"),
        (ReadCsv, "charset", "encoding"),
        (ReadLines, "sep", "delimiter"),
        (ReadLines, "lineSep", "delimiter"),
        (ReadLines, "encodin", "encoding"),
        (ReadJsonLines, "blockSize", "block_size"),
        (ReadAvro, "schema", "reader_schema"),
        (ReadParquet, "usecols", "columns"),
        (ReadRecords, "recordLength", "length"),
        (ReadXml, "rowTag", "tag"),
        (ReadLmdb, "withposition", "with_position"),
        (ReadTable, "partitionColumn", "key"),
        (ReadPages, "batch_size", "page_size"),
        (ReadWarc, "codec", "compression"),
        (ReadTar, "max_record_bytes", "max_member_bytes"),
        (ReadJson, "chunksize", "block_size"),
        (ReadPages, "limit", "page_size"),
        (ListObjects, "limit", "page_size"),
        (ListObjects, "glob", "regex"),
        (TailTable, "poll", "poll_seconds"),
        (ReadKafka, "startingOffsets", "start"),
        (WatchTopics, "bootstrap_servers", "config"),
        (MatchFiles, "filesystem", "storage_options"),
        (WatchFiles, "recursve", "recursive"),
        (WatchFiles, "intervall", "interval_seconds"),
    ],
)
def test_the_option_that_was_meant_is_named(kind, name, meant):
    """One that is spelt much the same, or what pandas, Spark and others call it."""
    assert f" Did you mean {meant}=? " in said(kind, **{name: 1})


def test_nothing_is_guessed_where_nothing_is_like_it():
    """Then the list has to do."""
    assert "Did you mean" not in said(ReadLines, foo=1)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (["a.txt"], {}, "ReadLines takes no option without its name (got 'a.txt'). What to read is no option but the"),
        ([], {"path": "a.txt"}, "ReadLines has no option 'path' (got path='a.txt'). What to read is no option but the"),
    ],
    ids=["without a name", "by name"],
)
def test_a_path_is_no_option(given, options, message):
    """What to read are the elements: the first mistake of who knows spark.read."""
    assert said(ReadLines, *given, **options).startswith(message)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (ReadRecords, (), "ReadRecords needs length=: see help(ReadRecords)."),
        (ReadTable, (), "ReadTable needs url= and key=: see help(ReadTable)."),
        (ReadPages, (), "ReadPages needs fetch= and count=: see help(ReadPages)."),
        (ReadXml, (), "ReadXml needs tag=: see help(ReadXml)."),
        (ReadTable, ("sqlite://",), "ReadTable needs key=: see help(ReadTable)."),
        (ReadRecords, (4, 5), "ReadRecords takes only length without its name (got 5)."),
    ],
)
def test_arguments_are_counted_in_the_name_of_the_connector(kind, given, message):
    """Not of the class above it that has the __init__."""
    assert said(kind, *given).startswith(message)


def test_a_value_that_may_be_secret_is_not_shown():
    """Messages end up in logs."""
    assert "hunter2" not in said(ReadTable, url="sqlite://", key="id", password="hunter2")


def test_a_users_reader_may_take_what_it_likes():
    """Only what it passes on is looked at."""
    assert (MineFn(mine=3, separator=";").mine, MineFn.option_names() >= {"separator"}) == (3, True)


@pytest.mark.parametrize(("kind", "name"), [(MineFn, "sep"), (BareFn, "encodin")])
def test_what_a_users_reader_passes_on_is_told(kind, name):
    """In the name of the reader whose option it should be."""
    assert re.match(r"Read(Csv|Lines) has no option '(sep|encodin)' .* Did you mean ", said(kind, **{name: ";"}))


def test_signatures_stay_as_they_are():
    """For help(), notebooks and the reference."""
    assert list(inspect.signature(TailLines).parameters) == [
        "poll_seconds",
        "rotated_seconds",
        "fail_on_data_loss",
        "timestamp",
        "options",
    ]


@pytest.mark.parametrize("copied", [copy.copy, lambda fn: cloudpickle.loads(cloudpickle.dumps(fn))])
def test_copies_are_not_looked_at(copied):
    """They are made without arguments."""
    assert copied(ReadSlices(4)).length == 4

"""group_by_key: pairs sorted onto storage by all slots, also where most of them have one key."""

import os
from collections import Counter

import pytest

from sdf import LiveRunner, group_by_key, run_sdf
from sdf.errors import InvalidTypeError, InvalidValueError, SdfError
from sdf.grouping.sorted_pairs import rows_of
from sdf.io import ReadGroups

pytest.importorskip("pyarrow")

COUNT = 20_000


def key_of(number):
    return "hot" if number % 10 else f"cold {number % 70}"


@pytest.fixture(scope="module")
def expected():
    return sorted(Counter(map(key_of, range(COUNT))).items())


@pytest.fixture(scope="module")
def groups(module_sc, tmp_path_factory):
    pairs = module_sc.parallelize(range(COUNT), 4).map(lambda number: (key_of(number), number))
    return group_by_key(pairs, path=str(tmp_path_factory.mktemp("groups")), files=8)


def count(key, values):
    return sum(1 for _ in values)


@pytest.mark.parametrize("runner", [None, LiveRunner()], ids=["StagedRunner", "LiveRunner"])
def test_a_function_gets_each_group_whole(groups, expected, runner):
    """Once, with all its values."""
    assert sorted(run_sdf(groups, ReadGroups(count), runner=runner).collect()) == expected


@pytest.mark.parametrize("runner", [None, LiveRunner()], ids=["StagedRunner", "LiveRunner"])
def test_parts_of_a_group_are_combined(groups, expected, runner):
    """By Spark's own reduceByKey."""
    parts = run_sdf(groups, ReadGroups(count, parts=True), runner=runner).cache()
    assert sorted(parts.reduceByKey(lambda one, other: one + other).collect()) == expected
    assert parts.count() > len(expected)


def test_no_file_is_much_longer_than_the_others(groups):
    """Though nine of ten pairs have one key; the sum is what there was."""
    (element,) = groups.collect()
    (folder,) = {path.rsplit("/", 1)[0] for path, _ in element.files}
    import pyarrow.parquet

    rows = [pyarrow.parquet.read_metadata(path).num_rows for path, _ in element.files]
    assert (len(rows), sum(rows), element.count) == (8, COUNT, COUNT)
    assert max(rows) < 1.5 * COUNT / 8
    assert folder.startswith("/")


@pytest.fixture
def session(sc):
    from pyspark.sql import SparkSession

    session = SparkSession(sc)
    yield session
    session._jvm.SparkSession.clearDefaultSession()
    session._jvm.SparkSession.clearActiveSession()
    SparkSession._instantiatedSession = None


def test_a_dataframe_is_grouped_by_a_column(session, tmp_path):
    """Its rows are dicts."""
    frame = session.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "user string, amount int")
    sums = ReadGroups(lambda user, rows: sum(row["amount"] for row in rows))
    grouped = group_by_key(frame, key="user", path=str(tmp_path))
    assert sorted(run_sdf(grouped, sums).collect()) == [("a", 4), ("b", 2)]


def test_columns_of_one_name_are_named(session, tmp_path):
    """As a join makes them: one of the two values would be lost."""
    frame = session.createDataFrame([("a", 1, 2)], "user string, amount int, amount int")
    with pytest.raises(
        InvalidValueError, match=r"columns with names of their own \(got \['user', 'amount', 'amount'\]"
    ):
        group_by_key(frame, key="user", path=str(tmp_path))


def test_a_job_that_fails_leaves_no_files(sc, small_disk):
    """Here the disk is full. There is one task: others of a failed job may still write."""
    pairs = sc.parallelize(range(200), 4).map(lambda number: (number, os.urandom(10_000)))
    with pytest.raises(SdfError, match="No space left"):
        group_by_key(pairs, path=str(small_disk), files=1)
    assert list(small_disk.iterdir()) == []


def test_nothing_is_grouped_into_nothing(sc, tmp_path):
    """No pairs make no files."""
    grouped = group_by_key(sc.parallelize([], 2), path=str(tmp_path))
    assert run_sdf(grouped, ReadGroups(count)).collect() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([1, 1], r"needs pairs \(key, value\) \(got 1\)"),
        ([(None, 1)], r"keys must be strings, bytes, integers, or tuples of these \(got None\)"),
        ([("a", 1), (1, 2)], "keys must all have the same type"),
    ],
)
def test_pairs_that_cannot_be_grouped_are_named(sc, tmp_path, pairs, message):
    """Before anything is written; also if the types differ between partitions only."""
    for partitions in (1, 2):
        with pytest.raises(InvalidTypeError, match=message):
            group_by_key(sc.parallelize(pairs, partitions), path=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [({"files": 0}, "files must be an integer >= 1"), ({"storage_options": 3}, "must be a mapping .got 3.")],
)
def test_options_that_are_none_are_named(sc, tmp_path, options, message):
    """Before any job."""
    with pytest.raises((InvalidTypeError, InvalidValueError), match=message):
        group_by_key(sc.parallelize([("a", 1)]), path=str(tmp_path), **options)


def test_what_is_no_rdd_or_path_is_named(sc, tmp_path):
    """Before any job."""
    with pytest.raises(InvalidTypeError, match="needs an RDD"):
        group_by_key([("a", 1)], path=str(tmp_path))
    with pytest.raises(InvalidTypeError, match="path must be a directory or a URL"):
        group_by_key(sc.parallelize([("a", 1)]), path=None)


OTHER_PAIR = pytest.mark.slow("the same test with as many of the other")


@pytest.mark.parametrize(
    ("partitions", "values"),
    [(1, 1), (4, 2), pytest.param(4, 1, marks=OTHER_PAIR), pytest.param(1, 2, marks=OTHER_PAIR)],
)
def test_no_file_is_much_longer_if_values_are_repeated(sc, tmp_path, values, partitions):
    """As flags and ratings are."""
    pairs = sc.parallelize(range(COUNT), partitions).map(lambda number: ("bot", number % values))
    (element,) = group_by_key(pairs, path=str(tmp_path), files=8).collect()
    import pyarrow.parquet

    rows = [pyarrow.parquet.read_metadata(path).num_rows for path, _ in element.files]
    assert (len(rows), sum(rows)) == (8, COUNT)
    assert max(rows) < 1.5 * COUNT / 8


def test_a_dataframe_needs_the_column_and_pairs_do_not(session, sc, tmp_path):
    """The message says which."""
    with pytest.raises(InvalidTypeError, match="pass key='its name'"):
        group_by_key(session.createDataFrame([("a", 1)], "user string, amount int"), path=str(tmp_path))
    with pytest.raises(InvalidTypeError, match="key is for DataFrames"):
        group_by_key(sc.parallelize([("a", 1)]), key="user", path=str(tmp_path))


@pytest.mark.parametrize(
    ("pairs", "files", "rows"), [(10**9, 8, 20_000), (300_000, 8, 1171), (10_000, 4, 78), (100, 4, 50), (0, 1, 50)]
)
def test_row_groups_are_small(pairs, files, rows):
    """So that slots have pieces to share also of few pairs that cost much each."""
    assert rows_of(pairs, files) == rows

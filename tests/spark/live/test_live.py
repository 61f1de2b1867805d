"""run_sdf with the live runner: what a user may rely on."""

import gc
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
from support.fns import (
    EVERY_FN,
    CountFn,
    NotesRuns,
    OddFn,
    OnlyDefersFn,
    ScaledFn,
    SlowCountFn,
    StaysFn,
    StrangeFn,
    UnplannedFn,
    expected,
)
from support.killing import lose_blocks

from sdf import UNBOUNDED, LiveRunner, OffsetRange, Progress, TaggedOutput, run_direct, run_sdf
from sdf.errors import CoordinatorError, InvalidTypeError, InvalidValueError, SplitError, UnboundedError
from sdf.spark import broadcasts
from sdf.spark.live import runner as live

ELEMENTS = [("a", 0), ("b", 1), ("c", 200), ("d", 7), ("c", 3)]
SKEWED = [("big", 200), *((str(i), 2) for i in range(12))]


def live_run(sc, elements, fn, **options):
    return run_sdf(sc.parallelize(elements, 3), fn, runner=LiveRunner(**options))


@pytest.mark.parametrize("fn", EVERY_FN, ids=lambda fn: type(fn).__name__)
def test_same_records_as_run_direct_at_every_action(sc, fn):
    """As multisets for every kind of restriction, and as lists from one action to the next."""
    result = live_run(sc, ELEMENTS, fn)
    first = result.collect()
    assert Counter(first) == Counter(run_direct(ELEMENTS, fn)) == expected(ELEMENTS)
    assert result.collect() == first


def test_nothing_runs_before_an_action(sc, tmp_path):
    """Elements are expanded at the call; process() runs in the action."""

    class Notes(CountFn):
        def process(self, element, tracker):
            (tmp_path / "ran").touch()
            yield from super().process(element, tracker)

    result = live_run(sc, ELEMENTS, Notes()).map(lambda record: record)
    assert not (tmp_path / "ran").exists()
    assert result.count() == 211
    assert (tmp_path / "ran").exists()


def test_a_straggler_is_split_while_it_runs(sc):
    """Idle lanes take over parts of what runs; a second action splits nothing."""

    result = live_run(sc, [("big", 200)], UnplannedFn())
    first = result.collect()
    splits = result.report.splits
    assert Counter(first) == expected([("big", 200)])
    assert splits >= 3
    assert len([task for task in result.report.tasks if task.records]) == 4
    assert (result.collect(), result.report.splits) == (first, splits)


def test_a_split_takes_functions_of_its_own_restriction_along(sc):
    """All are lambdas of one place, so they share one name; what is cut off has that of its element."""
    elements = [(factor, 300 if factor == 2 else 3) for factor in (2, 3, 5)]
    result = run_sdf(sc.parallelize(elements, 1), ScaledFn(), runner=LiveRunner(lanes=3))
    assert Counter(result.collect()) == Counter((f, f * number) for f, count in elements for number in range(count))
    assert result.report.splits > 0


def test_work_that_was_not_started_is_handed_over_first(sc):
    """Many small elements in one lane's share: they move, and none of them is split."""

    class Whole(SlowCountFn):
        def restriction_size(self, element, restriction):
            return 1000 if element[0] == "0" else 1  # one lane gets this, the others far too much

    elements = [(str(number), 1 + 99 * (number == 0)) for number in range(60)]
    result = live_run(sc, elements, Whole(), lanes=4)
    assert Counter(result.collect()) == expected(elements)
    assert sum(task.handed_back for task in result.report.tasks) > 0


def test_transformations_run_on_it_as_on_any_rdd(sc, tmp_path):
    """map, filter, mapPartitions, reduceByKey, zipWithIndex, saveAsTextFile, union, distinct, sortBy."""
    result = live_run(sc, ELEMENTS, CountFn(), lanes=2)
    records = sorted(expected(ELEMENTS).elements())
    assert sorted(result.map(lambda record: record[1]).collect()) == sorted(i for _, i in records)
    assert result.filter(lambda record: record[1] == 5).count() == 2
    assert result.mapPartitions(lambda part: [sum(1 for _ in part)]).sum() == 211
    totals = result.map(lambda record: (record[0], 1)).reduceByKey(lambda a, b: a + b).collectAsMap()
    assert totals == {"b": 1, "c": 203, "d": 7}
    indexed = result.zipWithIndex().collect()
    assert sorted(index for _, index in indexed) == list(range(211))
    assert Counter(record for record, _ in indexed) == Counter(records)
    result.saveAsTextFile(str(tmp_path / "out"))
    assert Counter(map(eval, sc.textFile(str(tmp_path / "out")).collect())) == Counter(records)
    assert result.union(result).count() == 422
    assert result.sortBy(lambda record: record).collect() == records
    assert sorted(result.repartition(2).collect()) == records
    assert sorted(result.coalesce(1).collect()) == records


def test_it_is_one_rdd_for_all_threads(sc):
    """The RDD in the JVM is made when it is first asked for, once; it has the name of the DoFn and the output."""
    result = run_sdf(sc.parallelize([("a", 3)]), CountFn(), runner=LiveRunner())
    with ThreadPoolExecutor(6) as pool:
        (only,) = {number.result() for number in [pool.submit(result.id) for _ in range(6)]}
    assert (result.id(), result.name()) == (only, "CountFn: main")


def test_to_df(sc):
    """Through a SparkSession, which looks at the first record before it runs the rest."""
    from pyspark.sql import SparkSession

    session = SparkSession(sc)
    frame = session.createDataFrame(live_run(sc, ELEMENTS, CountFn()), ["name", "number"])
    assert Counter(map(tuple, frame.collect())) == expected(ELEMENTS)


def test_cache_keeps_the_records(sc, tmp_path):
    """A cached result is computed once."""
    fn = NotesRuns(tmp_path)
    result = live_run(sc, ELEMENTS, fn).cache()
    assert result.count() == 211
    runs = fn.runs()
    assert Counter(result.collect()) == expected(ELEMENTS)
    assert fn.runs() == runs
    result.unpersist()


def test_a_cached_block_that_is_lost_is_computed_again(sc):
    """From the lane's content, and is the same."""
    result = live_run(sc, SKEWED, SlowCountFn()).cache()
    first = result.collect()
    assert lose_blocks(sc) == 4
    assert result.collect() == first
    assert Counter(first) == expected(SKEWED)
    assert result.report.replays == 4
    result.unpersist()


def test_take_and_first_do_not_run_the_whole_job(sc, tmp_path):
    """take(n) runs one lane as far as it needs; a later action gives every record once all the same."""

    class NotesRecords(NotesRuns):
        def process(self, element, tracker):
            for record in CountFn.process(self, element, tracker):
                self.note()
                yield record

    fn = NotesRecords(tmp_path)
    result = live_run(sc, [("big", 4_000_000)], fn)
    taken = result.take(3)
    assert len(taken) == 3
    assert result.first() == taken[0]
    assert len(result.report.tasks) == 0
    assert fn.runs() == 3 + 1
    small = live_run(sc, SKEWED, SlowCountFn())
    assert len(small.take(5)) == 5
    assert Counter(small.collect()) == expected(SKEWED)


def test_two_actions_at_once(sc):
    """From two threads: both are right."""
    result = live_run(sc, SKEWED, SlowCountFn())
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: Counter(result.collect())})) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {0: expected(SKEWED), 1: expected(SKEWED)}


def test_more_lanes_than_slots(sc):
    """A lane that has run dry makes room for one that has not begun."""
    result = live_run(sc, SKEWED, SlowCountFn(), lanes=11)
    assert result.getNumPartitions() == 11
    assert Counter(result.collect()) == expected(SKEWED)


def test_tags_give_one_lazy_rdd_each(sc):
    """Each runs the lanes; the records are those of one content."""
    outputs = run_sdf(sc.parallelize(ELEMENTS), OddFn(), runner=LiveRunner(), tags=("odd",))
    even, odd = outputs["main"].collect(), outputs["odd"].collect()
    assert Counter(even) + Counter(odd) == expected(ELEMENTS)
    assert all(i % 2 == 0 for _, i in even)
    assert outputs["main"].report.records == 211


def test_an_undeclared_tag_is_an_error_at_once(sc):
    """Though records go straight to the user's functions, which would not know what to make of it."""
    with pytest.raises(Exception, match=r"TaggedOutput\('odd', .*Pass tags=\('odd', ...\)"):
        live_run(sc, ELEMENTS, OddFn()).count()
    assert TaggedOutput("odd", 1).tag == "odd"


def test_an_undeclared_tag_is_an_error_though_it_was_made_elsewhere(sc):
    """Before process() ran, or on another thread: it is not lost among the declared ones."""

    class Premade(CountFn):
        def process(self, element, tracker):
            made, TaggedOutput.declared = TaggedOutput.declared, None
            stray = TaggedOutput("oops", 1)
            TaggedOutput.declared = made
            for record in super().process(element, tracker):
                yield record
                yield stray

    outputs = run_sdf(sc.parallelize(ELEMENTS), Premade(), runner=LiveRunner(), tags=("bad",))
    for name in ("main", "bad"):
        with pytest.raises(Exception, match=r"TaggedOutput\('oops', 1\), but the declared tags are"):
            outputs[name].count()


def test_a_restriction_too_long_to_be_told_stays_where_it_is(sc):
    """Half of it would be more than a message may hold."""
    wide = 10**600_000

    class Wide(UnplannedFn):
        def get_initial_restriction(self, element):
            return OffsetRange(wide, wide + element[1])

        def restriction_size(self, element, restriction):
            return restriction.stop - restriction.start

        def process(self, element, tracker):
            for position in range(*tracker.current_restriction()):
                if not tracker.try_claim(position):
                    return
                time.sleep(self.seconds)
                yield element[0], position - wide

    result = live_run(sc, [("big", 40)], Wide())
    assert Counter(result.collect()) == expected([("big", 40)])


def test_odd_progress_of_a_tracker_does_no_harm(sc):
    """It decides when a run ends, and nothing else."""

    class Odd(SlowCountFn):
        def create_tracker(self, element, restriction):
            tracker = super().create_tracker(element, restriction)
            numbers = iter([-5, float("nan"), float("inf"), 0])
            tracker.progress = lambda: Progress(next(numbers, 1), -1)
            return tracker

        def restriction_size(self, element, restriction):
            return 1

    result = live_run(sc, [("big", 60)], Odd())
    assert Counter(result.collect()) == expected([("big", 60)])


def test_side_inputs_and_hooks(sc):
    """As with the staged runner: setup once per worker, start_bundle and finish_bundle once per lane."""

    class Sums(CountFn):
        def setup(self):
            self.seen = []

        def start_bundle(self):
            self.seen.append("start")

        def finish_bundle(self):
            if self.seen[-1] != "start":
                raise RuntimeError(f"{self.seen}")
            self.seen.append("finish")

        def process(self, element, tracker, bonus, names):
            for name, i in super().process(element, tracker):
                yield name, i + bonus + len(names)

    names = sc.parallelize(["x", "y"])
    result = run_sdf(sc.parallelize(ELEMENTS), Sums(), runner=LiveRunner(), side_inputs={"bonus": 10, "names": names})
    assert Counter(result.collect()) == Counter((name, i + 12) for name, i in expected(ELEMENTS).elements())


def test_a_deferred_residual_waits_and_then_runs(sc):
    """defer_remainder(): not before its delay, and other work meanwhile."""

    class Defers(CountFn):
        def process(self, element, tracker):
            for i in range(*tracker.current_restriction()):
                if i % 3 == 2 and tracker.current_restriction().start != i:
                    tracker.defer_remainder(0.3)
                    return
                if not tracker.try_claim(i):
                    return
                yield element[0], i, time.time()

    result = live_run(sc, [("a", 5), ("b", 50)], Defers())
    records = result.collect()
    assert Counter((name, i) for name, i, _ in records) == expected([("a", 5), ("b", 50)])
    at = {(name, i): when for name, i, when in records}
    assert at["a", 2] - at["a", 1] >= 0.3


@pytest.mark.slow("test_live_server.py::test_what_a_lane_tells_of_work_that_it_deferred_often_is_no_longer_for_that")
def test_work_that_stays_where_it_is_may_be_deferred_any_number_of_times(sc):
    """What a lane tells of it when it has ended is no longer for that."""
    elements = [("a", 30_000), ("b", 10)]
    result = live_run(sc, elements, StaysFn(), lanes=1)
    assert Counter(result.collect()) == expected(elements)
    pieces = [(piece.element, piece.records, piece.units) for piece in result.report.pieces]
    assert Counter((element, records) for element, records, _ in pieces) == Counter((e, e[1]) for e in elements)
    assert sum(units for _, _, units in pieces) == 30_010


def test_work_that_only_defers_comes_to_an_end(sc):
    """Finite work that is deferred again and again without a claim is an error."""

    from sdf.execution import deferrals

    deferrals._MOST_IDLE, most = 5, deferrals._MOST_IDLE
    try:
        with pytest.raises(Exception, match="6 times in a row without a claim"):
            live_run(sc, [("a", 1)], OnlyDefersFn()).count()
    finally:
        deferrals._MOST_IDLE = most


def test_an_error_of_process_reaches_the_user(sc):
    """With the DoFn, the element and the restriction in Spark's message."""

    class Boom(CountFn):
        def process(self, element, tracker):
            raise ZeroDivisionError("boom")

    with pytest.raises(Exception, match=r"Boom.process\(\) on OffsetRange.* of element \('b', 1\) raised ZeroDiv"):
        live_run(sc, [("b", 1)], Boom()).count()


def test_a_broken_split_is_an_error(sc):
    """A tracker that loses something when it is split while it runs."""

    class Loses(SlowCountFn):
        def create_tracker(self, element, restriction):
            tracker = super().create_tracker(element, restriction)
            split = tracker.try_split

            def try_split(fraction):
                pair = split(fraction) if tracker._last >= tracker._start else None
                self.was_split = self.was_split or pair is not None
                return pair and (pair[0], OffsetRange(pair[1].start + 1, pair[1].stop))

            self.was_split = False
            tracker.try_split = try_split
            return tracker

        def process(self, element, tracker):
            for record in super().process(element, tracker):
                yield record
                for _ in range(3000 if record[1] == 200 else 0):  # the other lanes may be slow to start
                    if self.was_split:
                        break
                    time.sleep(0.01)

    with pytest.raises(Exception, match="SplitError"):
        live_run(sc, [("big", 400)], Loses()).count()


def test_a_process_that_is_not_deterministic_is_found_out(sc, tmp_path):
    """A second action that gives another number of records raises ReplayError."""
    again = tmp_path / "again"

    class Changes(CountFn):
        def process(self, element, tracker):
            for record in super().process(element, tracker):
                yield from [record] * (2 if again.exists() else 1)

    result = live_run(sc, [("a", 100)], Changes())
    assert result.count() == 100
    again.touch()
    with pytest.raises(Exception, match=r"ReplayError: Changes.process\(\) is not deterministic"):
        result.count()


def test_tags_that_are_made_up_anew_are_found_out(sc, tmp_path):
    """Each output's action runs the work again; as many records in all with other tags would lose and double some."""
    again = tmp_path / "again"

    class FickleFn(CountFn):
        def process(self, element, tracker):
            every = 3 if again.exists() else 2
            for name, number in super().process(element, tracker):
                yield (name, number) if number % every else TaggedOutput("odd", (name, number))

    outputs = run_sdf(sc.parallelize([("a", 2000)]), FickleFn(), runner=LiveRunner(), tags=("odd",))
    outputs["main"].count()
    again.touch()
    with pytest.raises(
        Exception, match=r"ReplayError: FickleFn.process\(\) is not deterministic: .*main, then each tag"
    ):
        outputs["odd"].count()


def test_wrong_arguments_are_errors_at_the_call(sc):
    """Before any lane runs; of the partitions for which the call waits."""
    unbounded = type(
        "Endless", (CountFn,), {"get_initial_restriction": lambda self, element: OffsetRange(0, UNBOUNDED)}
    )
    with pytest.raises(UnboundedError, match="has no end"):
        run_sdf(sc.parallelize([("a", 1)], 1), unbounded(), runner=LiveRunner())
    broken = type("Gap", (CountFn,), {"split_restriction": lambda self, element, restriction: [OffsetRange(0, 1)]})
    with pytest.raises(SplitError, match="do not add up"):
        run_sdf(sc.parallelize([("a", 10)], 1), broken(), runner=LiveRunner())
    with pytest.raises(InvalidTypeError, match="must be a StagedRunner or a LiveRunner"):
        run_sdf(sc.parallelize([1]), CountFn(), runner="live")


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("lanes", 0, InvalidValueError),
        ("lanes", 1.5, InvalidValueError),
        ("host", "", InvalidTypeError),
        ("host", 7, InvalidTypeError),
        ("host", "0.0.0.0", InvalidValueError),
        ("port", -1, InvalidValueError),
        ("port", 65536, InvalidValueError),
        ("port", "80", InvalidTypeError),
        ("port", (5, 4), InvalidValueError),
        ("port", (0, 4), InvalidValueError),
        ("port", (1, 2, 3), InvalidTypeError),
        ("min_piece_seconds", 0, InvalidValueError),
        ("patience_seconds", float("inf"), InvalidValueError),
    ],
)
def test_wrong_options_are_errors(option, value, error):
    """Each names the runner, the option and what was given."""
    with pytest.raises(error, match=f"LiveRunner {option} must be .*{value!r}".replace("(", r"\(").replace(")", r"\)")):
        LiveRunner(**{option: value})


def test_no_free_port_is_an_error_that_names_the_option(sc):
    """And the staged runner as the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CoordinatorError, match=rf"port {port} .*LiveRunner\(host=.*StagedRunner\(\)"):
            live_run(sc, ELEMENTS, CountFn(), port=port)
        result = live_run(sc, ELEMENTS, CountFn(), port=(port, port + 50))
        assert result.count() == 211
    with pytest.raises(CoordinatorError, match=r"cannot listen on '192\.0\.2\.1'"):
        live_run(sc, ELEMENTS, CountFn(), host="192.0.2.1")


def test_runs_share_a_named_port(sc):
    """One after the other, and at the same time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    results = [live_run(sc, ELEMENTS, CountFn(), port=port) for _ in range(3)]
    assert [result.count() for result in results] == [211] * 3
    assert {result.func._address.port for result in results} == {port}


def test_a_port_that_cannot_be_reached_is_an_error_that_names_the_option(sc, monkeypatch):
    """The lanes look for the coordinator where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = taken.getsockname()[1]
    serve = live.LiveRunner._serve

    def mislead(*arguments, **options):
        run = serve(*arguments, **options)
        run.address = attrs.evolve(run.address, port=nowhere)
        return run

    monkeypatch.setattr(live.LiveRunner, "_serve", mislead)
    result = live_run(sc, ELEMENTS, CountFn())
    with pytest.raises(
        Exception, match=r"CoordinatorError: lane \d on .* cannot reach .*LiveRunner\(host=.*StagedRunner"
    ):
        result.count()


def test_restrictions_that_cannot_be_told_stay_where_they_are(sc):
    """The driver makes only what it knows; such work is not split while it runs, and nothing is lost."""
    result = live_run(sc, [("big", 100)], StrangeFn())
    assert Counter(result.collect()) == expected([("big", 100)])
    assert result.report.splits == 0


def test_the_report(sc):
    """What has been done so far, at any time."""
    result = live_run(sc, SKEWED, SlowCountFn())
    assert result.report.records == 0
    result.count()
    assert (result.report.records, result.report.elements, len(result.report.tasks)) == (224, 13, 4)
    assert (result.report.retries, result.report.replays) == (0, 0)
    result.count()
    assert result.report.replays == 4
    assert "224 records of 13 elements" in str(result.report)


def coordinators():
    return [thread for thread in threading.enumerate() if thread.name == "sdf-coordinator"]


def gone(address, seconds=30):
    """Wait until a run is not served any more."""
    for _ in range(int(seconds / 0.1)):
        if not any(address.run in server._runs for server in live._servers.values()):
            return True
        time.sleep(0.1)
    return False


def test_the_coordinator_ends_when_the_rdd_is_forgotten(sc, monkeypatch):
    """But not while an RDD lives that was made from it, in Python or in the JVM."""
    for name in ("_COLLECT_EVERY_SECONDS", "_BACKOFF_SECONDS", "_PY4J_SECONDS"):
        monkeypatch.setattr(broadcasts, name, 0.2)
    monkeypatch.setattr(broadcasts, "_COLLECT_SHARE", 1.0)  # one that was slow is not followed by a long pause
    result = live_run(sc, ELEMENTS, CountFn())
    address = result.func._address
    in_jvm = result.union(sc.parallelize([("z", 0)]))
    del result
    gc.collect()
    for _ in range(2):  # the first one may have begun before
        collected_at = broadcasts._cleaner._collected_at
        while broadcasts._cleaner._collected_at == collected_at:
            time.sleep(0.05)
    assert in_jvm.count() == 212
    del in_jvm
    gc.collect()
    for _ in range(100):
        sc.parallelize([0]).count()  # Spark holds on to the last job's RDDs
        if gone(address, 1):
            break
    assert gone(address, 1)


class LocksFn(CountFn):
    """Gives a lock after some records."""

    def process(self, element, tracker):
        for name, number in super().process(element, tracker):
            yield threading.Lock() if number == 5 else (name, number)


@pytest.mark.parametrize("act", [lambda rdd: rdd.collect(), lambda rdd: rdd.cache().count()], ids=["collect", "cache"])
def test_a_record_that_does_not_pickle_names_the_dofn(sc, act):
    """It leaves the worker through PySpark's own pickler, which knows of no DoFn."""
    said = r"sdf\.errors\.UnpicklableError: LocksFn\.process\(\) gave a record that .*: <unlocked _thread\.lock"
    with pytest.raises(Exception, match=said):
        act(live_run(sc, [("a", 9)], LocksFn(), lanes=1))


def test_records_that_stay_in_the_worker_need_not_pickle(sc):
    """What is mapped over the result gets them as they are."""
    assert live_run(sc, [("a", 9)], LocksFn()).map(lambda record: isinstance(record, tuple)).sum() == 8


@pytest.mark.parametrize("other", ["plain", "live"])
def test_union_needs_no_pickling_in_between(sc, other):
    """To Spark the records of lanes are pickled as any others are, on either side."""
    result = live_run(sc, [("a", 9)], CountFn(), lanes=1)
    with_it = live_run(sc, [("b", 9)], CountFn(), lanes=1) if other == "live" else sc.parallelize(range(9), 1)
    assert result.union(with_it).count() == with_it.union(result).count() == 18
    assert result._jrdd_deserializer == with_it._jrdd_deserializer == result._jrdd_deserializer


def test_the_coordinator_ends_with_the_context(start_spark):
    """No thread and no socket is left."""
    sc = start_spark("local[2]")
    result = live_run(sc, ELEMENTS, CountFn())
    assert result.count() == 211
    assert coordinators()
    sc.stop()
    for thread in coordinators():
        thread.join(10)
    assert not coordinators()


def test_two_jobs_compete_for_slots(start_spark):
    """Two live runs at once under fair scheduling, on fewer slots than either has lanes."""
    sc = start_spark("local[2]", spark_scheduler_mode="FAIR")
    results = [live_run(sc, SKEWED, SlowCountFn(), lanes=4) for _ in range(2)]
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: Counter(results[n].collect())})) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {0: expected(SKEWED), 1: expected(SKEWED)}

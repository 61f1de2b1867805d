"""The history of a saved run: whatever the log holds, the next driver has the same open work, and the rest is done."""

import itertools
import json
import random
import re

import attrs
import pytest

from sdf import ByteKeyRange, DoFn, OffsetRange
from sdf.errors import JournalCorruptError, JournalError
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.saving.history import History
from sdf.saving.log_records import Segment, split_record
from sdf.scheduling.run_state import RunState


class Log:
    """A log in memory; see `sdf.saving.run_log.RunLog`."""

    root = "memory"

    def __init__(self):
        self.records = []
        self.blobs = {}

    def append(self, record):
        self.records.append(json.dumps(record))

    def read(self):
        return map(json.loads, self.records)

    def put(self, data):
        self.blobs[len(self.blobs)] = data
        return {"blob": len(self.blobs) - 1}

    def get(self, reference):
        return self.blobs[reference["blob"]]


@attrs.frozen
class Span:
    """A user's own restriction."""

    start: int
    stop: int


@attrs.frozen
class Text:
    """A restriction that proves its own tiling; its parts are no ranges."""

    letters: str

    def is_tiled_by(self, parts):
        return "".join(part.letters for part in parts) == self.letters


def cut(restriction, at):
    """Cut a restriction in two."""
    if isinstance(restriction, Text):
        return Text(restriction.letters[:at]), Text(restriction.letters[at:])
    kind, middle = type(restriction), restriction.start + at
    return kind(restriction.start, middle), kind(middle, restriction.stop)


def length(restriction):
    return len(restriction.letters) if isinstance(restriction, Text) else restriction.stop - restriction.start


class SizesFn(DoFn):
    def get_initial_restriction(self, element):
        return element

    def restriction_size(self, element, restriction):
        return 1 if isinstance(restriction, ByteKeyRange) else length(restriction)

    def process(self, element, tracker):
        raise NotImplementedError


class Driver:
    """A driver of a run: its ledger, and the log that it writes."""

    def __init__(self, log, elements=None):
        self.log = log
        self.now = 1000
        self.work = RunState(SizesFn())
        self.history = History(log)
        self.dues = {}
        self.parts = itertools.count()
        if self.history.app is None:
            self.add(["begin", "app", {"the DoFn": "SizesFn"}])
            self.add(["prepared"])
        else:
            self.add(["driver", "another"])
        if self.history.expanded is None:
            for record in self.history.of_elements(elements):
                self.add(record)
            self.open = {item.id: item for item in self.work.add(elements)}
        else:
            todo = self.history.replay(self.work)
            self.open = {item.id: item for item, _ in todo}
            self.dues = {item.id: due for item, due in todo if due}
        self.work.ledger.on_split = self.on_split

    def add(self, record):
        self.log.append(record)

    def on_split(self, item_id, primary, residuals):
        self.add(split_record(item_id, primary, residuals, lambda: self.now))

    def split(self, item_id, at, *, delay=0.0, watermark=None):
        """Cut an open work item; ``at`` 0: all of it is deferred."""
        item = self.open.pop(item_id)
        primary, rest = (None, item.restriction) if at == 0 else cut(item.restriction, at)
        self.work.ledger.assign("lane", [item])
        residual = Residual(rest, delay, watermark, deferred=delay > 0)
        (child,) = self.work.ledger.split("lane", item_id, primary, [residual])
        self.open[child.id] = child
        if primary is not None:
            self.open[item_id] = self.work.ledger.release("lane", item_id)
        if delay:
            self.dues[child.id] = self.now + round(delay * 1000)
        return child

    def commit(self, *item_ids, message=None, records=1):
        items = [self.open.pop(item_id) for item_id in item_ids]
        self.work.ledger.assign("lane", items)
        ids = self.work.ledger.commit_first("lane", len(items), items[-1].id, next(self.parts))
        self.add(self.history.of_segment(ids, Segment((message,), (records,), 0.5)))

    def open_work(self):
        """Return what is not committed, as it is known to this driver."""
        return sorted(
            (item.element_id, repr(item.restriction), item.watermark, self.dues.get(item.id, 0))
            for item in self.open.values()
        )


def one(restriction, *cuts):
    """Return an element of its own restriction, cut into pieces."""
    pieces, rest = [], restriction
    for at in cuts:
        piece, rest = cut(rest, at)
        pieces.append((piece, float(length(piece))))
    return Expanded(restriction, restriction, (*pieces, (rest, float(length(rest)))))


def check_tiling(log):
    """Whatever was logged last, committed parts and open work tile the elements."""
    history = History(log)
    if history.expanded is None:
        return
    work = RunState(SizesFn())
    todo = history.replay(work)  # which checks that all parts of an element tile it
    assert work.ledger.uncommitted() == len(todo)
    if todo:
        work.ledger.assign("rest", [item for item, _ in todo])
        work.ledger.seal("rest", "rest")
    work.ledger.prove()


ELEMENTS = [
    one(OffsetRange(0, 12), 5, 3),
    one(OffsetRange(12, 20)),
    one(Span(0, 9)),
    one(Text("abcdefgh"), 2),
    one(OffsetRange(3, 3)),
]


def random_run(seed):
    """Return a log of a run with several drivers that ends at a random point, and its last driver."""
    choose = random.Random(seed)
    log = Log()
    driver = Driver(log, ELEMENTS)
    for _ in range(choose.randint(0, 30)):
        if not driver.open:
            break
        item_id = choose.choice(sorted(driver.open))
        kind, size = choose.random(), length(driver.open[item_id].restriction)
        if kind < 0.45 and size > 1:
            driver.split(item_id, choose.randint(1, size - 1), watermark=choose.choice([None, 7.5]))
        elif kind < 0.55:
            driver.split(item_id, 0, delay=choose.choice([0.5, 60.0]), watermark=choose.choice([None, 7.5]))
        elif kind < 0.9:
            driver.commit(*choose.sample(sorted(driver.open), choose.randint(1, min(3, len(driver.open)))))
        else:
            before = driver.open_work()
            driver = Driver(log)
            assert driver.open_work() == before
    return log, driver


def seeds(count, *some):
    """Parametrize with seeds, some of which take every branch; the others wait for `make test-all`."""
    rest = pytest.mark.slow("the same test with other seeds")
    return pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n in some else rest) for n in range(count)])


@seeds(300, *range(30), 270)
def test_the_next_driver_has_the_same_open_work(seed):
    """With its restrictions, watermark states and due times, after any history of several drivers."""
    log, driver = random_run(seed)
    before = driver.open_work()
    assert Driver(log).open_work() == before
    assert Driver(log).open_work() == before


@seeds(60, *range(12), 20)
def test_any_beginning_of_the_log_is_a_state(seed):
    """A crash may cut it anywhere: what is committed and what is open tile the elements."""
    log, _ = random_run(seed)
    for length_ in range(len(log.records) + 1):
        beginning = Log()
        beginning.records, beginning.blobs = log.records[:length_], log.blobs
        check_tiling(beginning)


def test_all_orders_of_splits_and_commits_of_a_small_range():
    """Each followed by another driver."""
    runs = [()]
    seen = 0
    for _ in range(4):
        longer = []
        for events in runs:
            driver = replayed(events)
            for item_id, item in driver.open.items():
                longer.append((*events, (item_id, None)))
                longer += [(*events, (item_id, at)) for at in range(length(item.restriction))]
        for events in longer:
            driver = replayed(events)
            before = driver.open_work()
            assert Driver(driver.log).open_work() == before
            check_tiling(driver.log)
            seen += 1
        runs = longer
    assert seen == 292


def replayed(events):
    driver = Driver(Log(), [one(OffsetRange(0, 3))])
    for item_id, at in events:
        if at is None:
            driver.commit(item_id)
        else:
            driver.split(item_id, at)
    return driver


@pytest.mark.parametrize("restriction", [OffsetRange(0, 9), Span(0, 9), Text("abcdefghi")], ids=repr)
def test_restrictions_come_back_as_they_were(restriction):
    """Those of sdf as numbers, a user's own by the name of its class."""
    driver = Driver(Log(), [one(restriction)])
    driver.split(0, 4)
    driver.commit(0)
    ((item, due),) = History(driver.log).replay(RunState(SizesFn()))
    assert (item.restriction, item.element, due) == (cut(restriction, 4)[1], restriction, 0)


def test_a_range_of_keys_comes_back_as_it_was():
    """Though its bounds are no numbers."""
    log = Log()
    whole = ByteKeyRange(b"a", b"\xff")
    history = History(log)
    for record in [["begin", "app", {}], ["prepared"], *history.of_elements([Expanded("e", whole, ((whole, 1.0),))])]:
        log.append(record)
    ((item, _),) = History(log).replay(RunState(SizesFn()))
    assert (item.element, item.restriction, item.size) == ("e", whole, 1.0)


def test_an_element_may_be_any_value():
    """One that is no plain data is pickled."""
    log = Log()
    elements = [1, "é\n", None, ("a", 1.5), {"k": [b"\x00"]}, Span(1, 2), DoFn, float("inf")]
    span = OffsetRange(0, 1)
    history = History(log)
    for record in [
        ["begin", "app", {}],
        *history.of_elements([Expanded(each, span, ((span, 1.0),)) for each in elements]),
    ]:
        log.append(record)
    assert list(History(log).elements()) == elements
    assert [item.element for item, _ in History(log).replay(RunState(SizesFn()))] == elements


def test_a_run_without_elements_is_expanded():
    """There is nothing to do, and nothing to ask for again."""
    driver = Driver(Log(), [])
    assert History(driver.log).expanded == 0
    assert Driver(driver.log).open == {}


def test_elements_count_only_when_all_are_there():
    """A driver that died while it expanded is no trouble: the next one expands again."""
    log = Log()
    first = History(log)
    log.append(["begin", "app", {}])
    log.append(next(first.of_elements([one(OffsetRange(0, 5))])))
    driver = Driver(log, ELEMENTS)
    assert History(log).expanded == len(ELEMENTS)
    assert len(Driver(log).open) == len(driver.open)


def test_many_elements_take_several_blobs(monkeypatch):
    """And come back in order."""
    monkeypatch.setattr("sdf.saving.history._TOGETHER", 3)
    log = Log()
    Driver(log, [one(OffsetRange(number, number + 2)) for number in range(8)])
    history = History(log)
    assert len(history.blobs) == 3
    assert list(history.elements()) == [OffsetRange(number, number + 2) for number in range(8)]


def test_messages_and_counts_are_those_of_the_commits_in_their_order():
    """Of all drivers; None, of a segment that gave nothing to an output, is left out."""
    log = Log()
    driver = Driver(log, [one(OffsetRange(0, 9), 3, 3)])
    driver.commit(1, message={"name": "one"}, records=3)
    driver = Driver(log)
    driver.commit(0, message=None, records=0)
    driver.commit(2, message={"name": "two"}, records=4)
    for history in (driver.history, History(log)):
        assert history.messages(0) == [{"name": "one"}, {"name": "two"}]
        assert (history.segments, history.records, history.seconds) == (3, (7,), 1.5)
    assert driver.history.of_messages() == History(log).of_messages()


def test_seconds_of_work_that_drivers_lost_add_up():
    """As each was last heard of."""
    log = Log()
    for record in [["begin", "app", {}], ["running", 3.0], ["running", 5.0], ["driver", "b"], ["running", 1.0]]:
        log.append(record)
    assert (History(log).lost_seconds, History(log).drivers) == (6.0, 2)
    log.append(["running", 0.5])
    log.append(["committing", "hash"])
    assert History(log).lost_seconds == 5.5


def test_the_end_of_a_run_is_read():
    """What was committed, and that it is done."""
    log = Log()
    for record in [["begin", "app", {}], ["prepared"], ["expanded", 0], ["committing", "hash"], ["committed", "main"]]:
        log.append(record)
    history = History(log)
    assert (history.committing, history.committed, history.done) == ("hash", {"main"}, False)
    log.append(["done"])
    assert History(log).done


def test_another_run_is_told_by_what_is_different():
    """It names the difference."""
    history = Driver(Log(), []).history
    history = History(Driver(Log(), []).log)
    history.check_same({"the DoFn": "SizesFn"})
    with pytest.raises(JournalError, match=re.escape("it was begun with the DoFn 'SizesFn', this call has 'OtherFn'")):
        history.check_same({"the DoFn": "OtherFn"})


@pytest.mark.parametrize(
    ("record", "flaw"),
    [
        (["commit", [[0, 0]], [None], [1], 0.5], "work item 0 is not there, or is committed or set aside already"),
        (["commit", [[9, 9]], [None], [1], 0.5], "work item 9 is not there"),
        (["commit", [[1, 1]], [None], [1, 2], 0.5], "zip()"),
        (["commit"], "not enough values"),
        (["split", 0, [0, 1], []], "work item 0 is not there, or is committed or set aside already"),
        (["split", 1, None], "missing 1 required positional argument"),
        (["elements", {"size": 1}], "'blob'"),
        (["expanded", 7], "it should have 7 elements"),
        (["from the future"], "it does not know 'from the future'"),
        ([], "not enough values"),
        (7, "cannot unpack"),
    ],
)
def test_a_record_that_cannot_be_is_an_error_that_shows_it(record, flaw):
    """No crash makes one."""
    log = Log()
    driver = Driver(log, [one(OffsetRange(0, 9), 3)])
    driver.commit(0)
    log.append(record)
    if record == ["elements", {"size": 1}]:
        log.append(["expanded", 2])
    with pytest.raises(JournalCorruptError, match=re.escape(flaw)) as error:
        History(log)
    assert "A crash cannot cause this" in str(error.value)


@pytest.mark.parametrize(
    "split",
    [
        ["split", 0, [0, 4], [[[5, 9], None, False, 0]]],
        ["split", 0, [0, 5], [[[4, 9], None, False, 0]]],
        ["split", 0, [0, 5], []],
        ["split", 0, None, []],
        ["split", 0, {"value": ["name", "no.such:thing"]}, []],
        ["split", 0, {"nothing": 1}, []],
    ],
)
def test_a_history_that_does_not_add_up_is_an_error(split):
    """A gap, an overlap, a piece that is gone, a value that cannot be made."""
    log = Log()
    Driver(log, [one(OffsetRange(0, 9))])
    log.append(split)
    with pytest.raises(JournalCorruptError):
        History(log).replay(RunState(SizesFn()))


def test_the_records_are_small():
    """A usual split and a usual commit take some tens of bytes, as there may be a million."""
    log = Log()
    driver = Driver(log, [one(OffsetRange(0, 1000))])
    driver.split(0, 400)
    split = log.records[-1]
    driver.commit(0, 1, message="m")
    assert json.loads(split) == ["split", 0, [0, 400], [[[400, 1000], None, False, 0]]]
    assert json.loads(log.records[-1]) == ["commit", [[0, 1]], ["m"], [1], 0.5]


def test_a_retry_opens_what_was_set_aside_and_nothing_else():
    """Split, committed or failed again: the next driver knows; what is open in a retry is listed as set aside."""
    log = Log()
    driver = Driver(log, [one(OffsetRange(0, 9))])
    log.append(["split", 0, [0, 3], [[[3, 9], None, False, 0]]])
    log.append(["commit", [[0, 0]], ["first"], [3], 0.5])
    log.append(["failed", 1, 4, "old"])
    log.append(["committing", "hash"])
    log.append(["committed", "main"])
    log.append(["done"])
    assert driver.history.retries == 0

    def told(*, again=False):
        return [(*block.restriction, block.attempts, block.error) for block in History(log).failed_blocks(again=again)]

    def left():
        return [tuple(item.restriction) for item, _ in History(log).replay(RunState(SizesFn()))]

    assert (told(), left()) == ([(3, 9, 4, "old")], [])
    log.append(["retry", 1, "name"])
    assert (told(), told(again=True), left()) == ([(3, 9, 4, "old")], [], [(3, 9)])
    log.append(["split", 1, [3, 5], [[[5, 9], None, False, 0]]])
    log.append(["commit", [[1, 1]], ["second"], [2], 0.5])
    assert (told(), told(again=True), left()) == ([(5, 9, 4, "old")], [], [(5, 9)])
    log.append(["driver", "another"])
    log.append(["split", 1, [5, 6], [[[6, 9], None, False, 0]]])
    log.append(["failed", 1, 2, "new"])
    assert told() == [(5, 6, 2, "new"), (6, 9, 4, "old")]
    assert (told(again=True), left()) == ([(5, 6, 2, "new")], [(6, 9)])
    history = History(log)
    assert (history.done, history.retrying, history.retries, history.committing) == (True, True, 1, None)
    assert (history.messages(0), history.messages(0, added=True)) == (["second"], ["first", "second"])
    log.append(["commit", [[2, 2]], ["third"], [3], 0.5])
    log.append(["done"])
    assert (told(), left(), History(log).retrying) == ([(5, 6, 2, "new")], [], False)


@pytest.mark.parametrize("before", [[], [["done"], ["retry", 1, "name"]], [["done"]]])
def test_a_retry_that_cannot_begin_is_an_error(before):
    """The run is not done, or the number is not the next one."""
    log = Log()
    Driver(log, [one(OffsetRange(0, 9))]).commit(0)
    for record in [*before, ["retry", 1 if not before else 7, "name"]]:
        log.append(record)
    with pytest.raises(JournalCorruptError, match="no such retry"):
        History(log)

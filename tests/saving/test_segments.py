"""Writing a segment: which record goes to which sink, what is counted, and where a bad record comes from."""

import json

import attrs
import pytest

from sdf import DoFn, OffsetRange, TaggedOutput
from sdf.errors import BadRecordError, OutputError, ProcessError, SinkError
from sdf.execution.bundle import Bundle
from sdf.execution.expansion import expand
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.scheduling.run_state import RunState
from sdf.sinks import Sink, Token

TOKEN = Token("run", 0)
written = {}  # the records of each sink, by its name
places = {}


@attrs.frozen
class ListSink(Sink):
    """Keeps the records; refuses some of them, or all after the first few."""

    name: str
    bad: object = None
    rejects: bool = False
    most: int | None = None
    message: object = None

    def identity(self):
        return self.name

    def prepare(self, run):
        raise NotImplementedError

    def write(self, records, place):
        places[self.name] = place
        kept = written[self.name] = []
        for number, record in enumerate(records):
            if number == self.most:
                break
            if record == self.bad and self.rejects:
                place.reject(record)
            elif record == self.bad:
                error = BadRecordError(f"no {record!r} here")
                error.number = number
                raise error
            else:
                kept.append(record)
        return self.message or {"kept": len(kept)}

    def commit(self, messages, token):
        raise NotImplementedError

    def abort(self, messages, token):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def nothing_written():
    written.clear()
    places.clear()


def targets(*sinks):
    return Targets(tuple((sink.name, sink) for sink in sinks), TOKEN)


def mixed(n, tags=("odd",)):
    """Numbers; every second one goes to the next of some tags."""
    for i in range(n):
        yield TaggedOutput(tags[i // 2 % len(tags)], i) if i % 2 else i


def test_the_records_of_one_output_go_straight_to_its_sink():
    """They are not read before the sink asks."""
    messages, counts = write_segment(iter(range(5)), targets(ListSink("main")), "Fn")
    assert written == {"main": [0, 1, 2, 3, 4]}
    assert (messages, counts) == (({"kept": 5},), (5,))


@pytest.mark.parametrize("n", [0, 1, 7, 2500, 5000])
def test_each_tag_has_its_sink(n):
    """In order, however many there are; messages and counts are in the order of the sinks."""
    sinks = targets(ListSink("main"), ListSink("odd"), ListSink("other"))
    messages, counts = write_segment(mixed(n, ("odd", "other")), sinks, "Fn")
    assert written == {"main": list(range(0, n, 2)), "odd": list(range(1, n, 4)), "other": list(range(3, n, 4))}
    assert [message["kept"] for message in messages] == list(counts) == [len(each) for each in written.values()]
    assert TaggedOutput.declared is None


def test_large_records_of_a_tag_are_spooled():
    """To a file, from some megabytes on."""
    outputs = (TaggedOutput("odd", bytes(1 << 20)) for _ in range(12))
    _, counts = write_segment(outputs, targets(ListSink("main"), ListSink("odd")), "Fn")
    assert counts == (0, 12)
    assert written["odd"] == [bytes(1 << 20)] * 12


def test_each_sink_has_a_place_of_its_own():
    """Whose name nobody else has."""
    names = set()
    for _ in range(3):
        write_segment(mixed(4), targets(ListSink("main"), ListSink("odd")), "Fn")
        assert {name: (place.token, place.tag) for name, place in places.items()} == {
            "main": (TOKEN, "main"),
            "odd": (TOKEN, "odd"),
        }
        names |= {place.name for place in places.values()}
    assert len(names) == 6


def test_an_undeclared_tag_is_an_error():
    """Also while process() has a tag that is declared."""
    with pytest.raises(OutputError, match="even"):
        write_segment(mixed(4, ("even",)), targets(ListSink("main"), ListSink("odd")), "Fn")
    assert TaggedOutput.declared is None


def test_what_a_sink_rejects_goes_to_bad_and_counts_there():
    """With what process() puts there itself; "bad" is written last, wherever it is declared."""
    sinks = targets(ListSink("main", 2, True), ListSink("bad"), ListSink("odd", 5, True))
    _, counts = write_segment(mixed(6, ("odd", "bad", "odd")), sinks, "Fn")
    assert written == {"main": [0, 4], "odd": [1], "bad": [2, 3, 5]}
    assert counts == (2, 3, 1)


def test_without_an_output_for_them_nothing_can_be_rejected():
    """The place says so to the sink; "bad" itself has nowhere else to go."""
    write_segment(mixed(4), targets(ListSink("main"), ListSink("odd")), "Fn")
    assert places["main"].reject is None
    write_segment(mixed(4, ("bad",)), targets(ListSink("main"), ListSink("bad")), "Fn")
    assert places["bad"].reject is None
    assert places["main"].reject is not None


@pytest.mark.parametrize(
    "sinks", [[ListSink("main", most=1), ListSink("odd")], [ListSink("main"), ListSink("odd", most=1)]]
)
def test_a_sink_that_leaves_records_unread_is_an_error(sinks):
    """They would be lost."""
    with pytest.raises(SinkError, match=r"ListSink.write\(\) must read all records of a segment; it left some unread."):
        write_segment(mixed(6), targets(*sinks), "Fn")


def test_a_sink_that_reads_nothing_still_has_the_segment_run():
    """What gives no records is done then, too."""
    ran = []

    def outputs():
        ran.append("ran")
        yield from ()

    write_segment(outputs(), targets(ListSink("main", most=0)), "Fn")
    assert ran == ["ran"]


@pytest.mark.parametrize(
    "message", [{1}, {"path": object()}, float("nan"), {"files": b"1"}], ids=["set", "object", "nan", "bytes"]
)
def test_a_message_that_the_log_cannot_hold_is_an_error_of_the_sink(message):
    """Told on the worker, with the name of the sink."""
    with pytest.raises(SinkError, match=r"ListSink.write\(\) must return None or JSON data \(got "):
        write_segment(iter([1]), targets(ListSink("main", message=message)), "Fn")


def test_a_message_comes_back_from_the_log_as_it_was_sent():
    """Though it holds tuples and numbers as keys, which JSON does not have."""
    (message,), _ = write_segment(iter([1]), targets(ListSink("main", message={"rows": (1, 2), 7: 8})), "Fn")
    assert message == {"rows": [1, 2], "7": 8} == json.loads(json.dumps(message))


# Where a bad record comes from


class NumbersFn(DoFn):
    """Element: (name, N). Gives name and number, odd ones as tagged outputs."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield TaggedOutput("odd", (element[0], i)) if i % 2 else (element[0], i)


class OnceFn(NumbersFn):
    """Fails when it runs again."""

    def __init__(self):
        self.ran = False

    def process(self, element, tracker):
        if self.ran:
            raise ValueError("not twice")
        self.ran = True
        yield from super().process(element, tracker)


class ShrinkingFn(NumbersFn):
    """Gives nothing when it runs again."""

    def __init__(self):
        self.ran = False

    def process(self, element, tracker):
        again, self.ran = self.ran, True
        return (output for output in super().process(element, tracker) if not again)


def blamed(fn, elements, *sinks):
    """Write the outputs of a bundle, one of which is bad; return the error with its origin."""
    items = list(RunState(fn).add([expand(fn, element) for element in elements]))
    bundle = Bundle(fn, items, side_inputs={}, clock=lambda: 0.0)
    with pytest.raises(BadRecordError) as raised:
        write_segment(bundle.outputs(), targets(*sinks), "Fn")
    return str(blame_record(raised.value, fn, bundle.held(), {}))


@pytest.mark.parametrize("record", [("a", 0), ("a", 4), ("b", 0), ("b", 2)])
def test_a_bad_record_is_traced_to_its_position(record):
    """By running the segment again; it need not be in the first element."""
    text = blamed(NumbersFn(), [("a", 6), ("b", 6)], ListSink("main", record), ListSink("odd"))
    assert text == (
        f"NumbersFn.process() of element ('{record[0]}', 6), OffsetRange(start=0, stop=6) at position {record[1]} gave "
        f"a bad record: no {record} here"
    )


def test_a_bad_record_of_a_tag_is_traced_too():
    """Counted among the records of its own output."""
    text = blamed(NumbersFn(), [("a", 6), ("b", 4)], ListSink("main"), ListSink("odd", ("b", 3)))
    assert "element ('b', 4), OffsetRange(start=0, stop=4) at position 3 gave a bad record" in text


@pytest.mark.parametrize("fn", [OnceFn(), ShrinkingFn()], ids=lambda fn: type(fn).__name__)
def test_a_record_that_does_not_come_again_is_told_without_its_position(fn):
    """The sink's error says what is wrong; that the second run went otherwise does not hide it."""
    text = blamed(fn, [("a", 6)], ListSink("main", ("a", 4)), ListSink("odd"))
    assert text == f"{type(fn).__name__}.process() of a segment gave a bad record: no ('a', 4) here"


def test_a_sink_that_does_not_number_records_is_believed_all_the_same():
    """Its error is raised with the name of the DoFn."""
    error = blame_record(BadRecordError("too long"), NumbersFn(), [], {})
    assert str(error) == "NumbersFn.process() of a segment gave a bad record: too long"


def test_an_error_of_process_is_no_bad_record():
    """It passes through the sink as it is."""
    fn = OnceFn()
    fn.ran = True
    bundle = Bundle(fn, list(RunState(fn).add([expand(fn, ("a", 1))])), side_inputs={}, clock=lambda: 0.0)
    with pytest.raises(ProcessError, match="not twice"):
        write_segment(bundle.outputs(), targets(ListSink("main"), ListSink("odd")), "Fn")

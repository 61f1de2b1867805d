"""Sinks of a segment that go wrong: messages that no log can hold, records that do not come again."""

import json

import attrs
import pytest

from sdf import DoFn, OffsetRange, TaggedOutput
from sdf.errors import BadRecordError, ProcessError, SinkError
from sdf.execution.bundle import Bundle
from sdf.execution.expansion import expand
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.scheduling.run_state import RunState
from sdf.sinks import Sink, Token

TOKEN = Token("run", 0)
written = {}  # the records of each sink, by its name


@attrs.frozen
class ListSink(Sink):
    """Keeps the records; refuses some of them, or all after the first few."""

    name: str
    bad: object = None
    most: int | None = None
    message: object = None

    def identity(self):
        return self.name

    def prepare(self, run):
        raise NotImplementedError

    def write(self, records, place):
        kept = written[self.name] = []
        for number, record in enumerate(records):
            if number == self.most:
                break
            if record == self.bad:
                error = BadRecordError(f"no {record!r} here")
                error.number = number
                raise error
            kept.append(record)
        return self.message or {"kept": len(kept)}

    def commit(self, messages, token):
        raise NotImplementedError

    def abort(self, messages, token):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def nothing_written():
    written.clear()


def targets(*sinks):
    return Targets(tuple((sink.name, sink) for sink in sinks), TOKEN)


def test_large_records_of_a_tag_are_spooled():
    """To a file, from some megabytes on."""
    outputs = (TaggedOutput("odd", bytes(1 << 20)) for _ in range(12))
    _, counts = write_segment(outputs, targets(ListSink("main"), ListSink("odd")), "Fn")
    assert counts == (0, 12)
    assert written["odd"] == [bytes(1 << 20)] * 12


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


@pytest.mark.parametrize("fn", [OnceFn(), ShrinkingFn()], ids=lambda fn: type(fn).__name__)
def test_a_record_that_does_not_come_again_is_told_without_its_position(fn):
    """The sink's error says what is wrong; that the second run went otherwise does not hide it."""
    text = blamed(fn, [("a", 6)], ListSink("main", ("a", 4)), ListSink("odd"))
    assert text == f"{type(fn).__name__}.process() of a segment gave a bad record: no ('a', 4) here"


def test_an_error_of_process_is_no_bad_record():
    """It passes through the sink as it is."""
    fn = OnceFn()
    fn.ran = True
    bundle = Bundle(fn, list(RunState(fn).add([expand(fn, ("a", 1))])), side_inputs={}, clock=lambda: 0.0)
    with pytest.raises(ProcessError, match="not twice"):
        write_segment(bundle.outputs(), targets(ListSink("main"), ListSink("odd")), "Fn")

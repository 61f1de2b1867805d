"""A segment: each output goes to its sink, and an error says which record of which element it was."""

import os
import re

import attrs
import pytest

from sdf import DoFn, OffsetRange, TaggedOutput
from sdf.errors import BadRecordError, ContractError, OutputError, SinkError
from sdf.execution.work_items import WorkItem
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.sinks import Sink, Token


@attrs.frozen
class ListSink(Sink):
    """Its message is what it was given; it cannot write some records, and can stop early."""

    refused: tuple = ()
    most: int | None = None
    places: list = attrs.field(factory=list, eq=False)

    def identity(self):
        return ["list"]

    def prepare(self, run):
        """Nothing to prepare."""

    def write(self, records, place):
        self.places.append(place)
        if self.most is not None:
            return [next(records) for _ in range(self.most)]
        rows = []
        for number, record in enumerate(records):
            if record not in self.refused:
                rows.append(record)
            elif place.reject is not None:
                place.reject(record)
            else:
                error = BadRecordError(f"{record!r} cannot be written.")
                error.number = number
                raise error
        return rows

    def commit(self, messages, token):
        raise NotImplementedError

    def abort(self, messages, token):
        raise NotImplementedError


class ForkingSink(ListSink):
    def write(self, records, place):
        if child := os.fork():
            os.waitpid(child, 0)
        return super().write(records, place)


def targets(main=None, **sinks):
    return Targets((("main", main or ListSink()), *sinks.items()), Token("app", 0))


def test_a_process_that_a_sink_forks_and_that_goes_on_is_named():
    """It would write the same files."""
    with pytest.raises(ContractError, match=r"^ForkingSink\.write\(\): a process that it forked came back from it"):
        write_segment(iter("ab"), targets(ForkingSink()), "Fn")


def test_records_go_to_the_sink_as_they_come():
    """None is kept back."""
    seen = []

    class LazySink(ListSink):
        def write(self, records, place):
            seen.extend(("written", record) for record in records)
            return "message"

    def outputs():
        for number in range(3):
            seen.append(("made", number))
            yield number

    assert write_segment(outputs(), targets(LazySink()), "Fn") == (("message",), (3,))
    assert seen == [(what, number) for number in range(3) for what in ("made", "written")]


def test_each_tag_goes_to_its_own_sink_in_order():
    """However the records of the outputs are mixed, and however many."""
    outputs = [TaggedOutput("odd", number) if number % 2 else number for number in range(5001)]
    messages, records = write_segment(iter(outputs), targets(odd=ListSink(), none=ListSink()), "Fn")
    assert messages == (list(range(0, 5001, 2)), list(range(1, 5001, 2)), [])
    assert records == (2501, 2500, 0)


def test_rejected_records_go_to_the_output_bad():
    """From all outputs, beside those that process() puts there; they count there, and not where they came from."""
    given = [1, 2, TaggedOutput("other", 3), TaggedOutput("bad", "mine"), 4]
    sinks = targets(ListSink((2,)), bad=ListSink(), other=ListSink((3,)))
    assert write_segment(iter(given), sinks, "Fn") == (([1, 4], [2, "mine", 3], []), (2, 3, 0))


def test_the_sink_of_bad_records_cannot_reject_any():
    """There is no further one. The number of such a record does not tell where it came from."""
    with pytest.raises(BadRecordError, match="2 cannot be written") as error:
        write_segment(iter([1, 2]), targets(ListSink((2,)), bad=ListSink((2,))), "Fn")
    assert (error.value.output, error.value.number) == ("bad", None)


def test_without_an_output_bad_a_bad_record_is_an_error_that_knows_its_output():
    """And its number there."""
    with pytest.raises(BadRecordError) as error:
        write_segment(iter([1, TaggedOutput("b", 7), TaggedOutput("b", 8)]), targets(b=ListSink((8,))), "Fn")
    assert (error.value.output, error.value.number) == ("b", 1)


@pytest.mark.parametrize("most", [0, 2])
def test_a_sink_that_leaves_records_is_an_error(most):
    """They would be lost."""
    with pytest.raises(SinkError, match=re.escape("ListSink.write() must read all records of a segment; it left some")):
        write_segment(iter([1, 2, 3]), targets(ListSink(most=most)), "Fn")
    assert write_segment(iter([1, 2, 3]), targets(ListSink(most=3)), "Fn") == (([1, 2, 3],), (3,))


def test_an_undeclared_tag_is_an_error():
    """With tags and without; and the worker's other runs do not notice."""
    for sinks in (targets(odd=ListSink()), targets()):
        with pytest.raises(OutputError, match="'even'"):
            write_segment((TaggedOutput("even", number) for number in range(1)), sinks, "Fn")
        assert TaggedOutput.declared is None


def test_each_segment_and_output_has_a_place_of_its_own():
    """So that late attempts overwrite nothing."""
    main, odd = ListSink(), ListSink()
    for _ in range(3):
        write_segment(iter([1]), targets(main, odd=odd), "Fn")
    places = [*main.places, *odd.places]
    assert len({place.name for place in places}) == 6
    assert [place.tag for place in places] == ["main"] * 3 + ["odd"] * 3
    assert {place.token for place in places} == {Token("app", 0)}


# Whose record it was.


class LinesFn(DoFn):
    """Element: a name and a count. Gives two records for each number, and one with a tag."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for number in range(*tracker.current_restriction()):
            if not tracker.try_claim(number):
                return
            yield f"{element[0]}{number}a"
            yield TaggedOutput("tag", f"{element[0]}{number}t")
            yield f"{element[0]}{number}b"


class ListsFn(LinesFn):
    """As LinesFn, all at once."""

    def process(self, element, tracker):
        return list(super().process(element, tracker))


ITEMS = [
    WorkItem(0, 0, ("x", 9), OffsetRange(3, 5)),
    WorkItem(1, 1, ("y", 2), OffsetRange(0, 2)),
]


def blamed(number, output="main", fn=None, items=ITEMS):
    error = BadRecordError("it is bad.")
    error.number, error.output = number, output
    return str(blame_record(error, fn or LinesFn(), items, {}))


@pytest.mark.parametrize(
    ("number", "output", "where"),
    [
        (0, "main", "element ('x', 9), OffsetRange(start=3, stop=5) at position 3"),
        (3, "main", "element ('x', 9), OffsetRange(start=3, stop=5) at position 4"),
        (4, "main", "element ('y', 2), OffsetRange(start=0, stop=2) at position 0"),
        (7, "main", "element ('y', 2), OffsetRange(start=0, stop=2) at position 1"),
        (3, "tag", "element ('y', 2), OffsetRange(start=0, stop=2) at position 1"),
    ],
)
def test_the_diagnosis_of_a_bad_record_names_element_and_position(number, output, where):
    """Found by running the work items of the segment again."""
    assert blamed(number, output) == f"LinesFn.process() of {where} gave a bad record: it is bad."


def test_of_a_list_the_position_is_the_last_one():
    """All was claimed when the list was made; the restriction says where it must be."""
    assert "OffsetRange(start=3, stop=5) at position 4" in blamed(0, fn=ListsFn())


@pytest.mark.parametrize(("number", "items"), [(8, ITEMS), (None, ITEMS), (0, [])])
def test_a_record_that_does_not_come_again_is_of_the_segment(number, items):
    """Or one whose number the sink does not know."""
    assert blamed(number, items=items) == "LinesFn.process() of a segment gave a bad record: it is bad."


def test_side_inputs_are_passed_again():
    """To the DoFn that is asked for the record once more."""

    class PlusFn(LinesFn):
        def process(self, element, tracker, plus):
            for number in range(*tracker.current_restriction()):
                if not tracker.try_claim(number):
                    return
                yield number + plus

    error = BadRecordError("it is bad.")
    error.number = 1
    assert "at position 4" in str(blame_record(error, PlusFn(), ITEMS, {"plus": 1}))

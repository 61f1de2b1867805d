"""A bundle: the work items of one task, and what it hands back when it is told to."""

import re
import threading

import pytest
from support.clock import Clock
from support.timed import TimedFn

from sdf.errors import OutputError, ProcessError, UnclaimedWorkError
from sdf.execution.bundle import Bundle
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part, WorkItem
from sdf.model.dofn import TaggedOutput
from sdf.model.offset_trackers import UnsplittableTracker
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.ledger import Ledger


class DeferFn(TimedFn):
    """Claims three offsets and defers the rest for a minute, or defers all when it is called "later"."""

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        for position in range(start, start + 3 if element != "later" else start):
            tracker.try_claim(position)
            yield element, position
        tracker.defer_remainder(60)


class UnsizedFn(TimedFn):
    """Does not know how much work there is."""

    def restriction_size(self, element, restriction):
        return None


class AtomicFn(TimedFn):
    """Cannot be shared out."""

    def create_tracker(self, element, restriction):
        return UnsplittableTracker(restriction)


def items_of(*bounds, size=True, elements="abcdefgh"):
    return [
        WorkItem(number, number, elements[number], OffsetRange(start, stop), stop - start if size else None)
        for number, (start, stop) in enumerate(bounds)
    ]


def bundle_of(*bounds, fn=TimedFn, **options):
    clock = Clock()
    return Bundle(fn(clock), items_of(*bounds, **options), clock=clock)


def take(outputs, count):
    return [next(outputs) for _ in range(count)]


# Without interference


def test_outputs_are_those_of_the_work_items_in_order():
    """One after the other."""
    bundle = bundle_of((0, 2), (5, 7))
    assert list(bundle.outputs()) == [("a", 0), ("a", 1), ("b", 5), ("b", 6)]


def test_outcome_of_all():
    """All were started, none in parts; units are sizes and seconds the clock's."""
    bundle = bundle_of((0, 2), (5, 8))
    list(bundle.outputs())
    assert bundle.outcome() == Outcome(2, (), 5, 5)


def test_outcome_of_nothing():
    """A bundle without work items starts and finishes."""
    bundle = bundle_of()
    assert (list(bundle.outputs()), bundle.outcome()) == ([], Outcome(0, (), 0, 0))


def test_unknown_sizes_count_as_one():
    """Each whole work item is one unit."""
    bundle = bundle_of((0, 2), (5, 8), fn=UnsizedFn, size=False)
    list(bundle.outputs())
    assert bundle.outcome() == Outcome(2, (), 2, 5)


def test_empty_work_items_are_run():
    """Size 0 is no reason to skip one."""
    bundle = bundle_of((3, 3), (5, 5))
    assert (list(bundle.outputs()), bundle.outcome()) == ([], Outcome(2, (), 0, 0))


def test_bundle_is_started_and_finished_once():
    """Whatever the number of work items."""
    fn = TimedFn()
    list(Bundle(fn, items_of((0, 2), (5, 7)), clock=Clock()).outputs())
    assert fn.calls == ["start", "finish"]


def test_outputs_are_lazy():
    """A task streams: it starts a work item when the one before has ended."""
    bundle = bundle_of((0, 2**64), (0, 5))
    assert take(bundle.outputs(), 3) == [("a", 0), ("a", 1), ("a", 2)]


def test_side_inputs_reach_process():
    """By name."""

    class AddFn(TimedFn):
        def process(self, element, tracker, bonus):
            return [position + bonus for _, position in super().process(element, tracker)]

    bundle = Bundle(AddFn(), items_of((0, 3)), side_inputs={"bonus": 10}, clock=Clock())
    assert list(bundle.outputs()) == [10, 11, 12]


def test_finish_bundle_cannot_output():
    """It would output what belongs to no claimed block."""

    class TalkFn(TimedFn):
        def finish_bundle(self):
            return ["more"]

    with pytest.raises(
        OutputError, match=re.escape("TalkFn.finish_bundle(): it must return None, it cannot output (got ['more'])")
    ):
        list(Bundle(TalkFn(), items_of((0, 1)), clock=Clock()).outputs())


@pytest.mark.parametrize("name", ["start_bundle", "finish_bundle"])
def test_a_hook_that_raises_is_a_process_error(name):
    """It names the DoFn and the hook."""

    def breaks(self):
        raise OSError("disk")

    fn = type("BreakFn", (TimedFn,), {name: breaks})()
    with pytest.raises(ProcessError, match=re.escape(f"BreakFn.{name}() raised OSError: disk")) as caught:
        list(Bundle(fn, items_of((0, 1)), clock=Clock()).outputs())
    assert type(caught.value.__cause__) is OSError


def test_its_progress_goes_on_in_finish_bundle():
    """So no block hangs then. It stands still while a work item is opened, or works."""
    seen, bundles = {}, []

    def looks(clock, where):
        before = bundles[-1].progress()
        clock.now += 1
        seen.setdefault(where, set()).add(bundles[-1].progress() == before)

    class LookingFn(TimedFn):
        def create_tracker(self, element, restriction):
            looks(self.clock, "opens")
            return super().create_tracker(element, restriction)

        def process(self, element, tracker):
            for position in tracker.claims():
                looks(self.clock, "works")
                yield position

        def finish_bundle(self):
            looks(self.clock, "finishes")

    bundles.append(bundle_of((0, 2), (2, 4), fn=LookingFn))
    list(bundles[-1].outputs())
    assert seen == {"opens": {True}, "works": {True}, "finishes": {False}}


def test_tagged_outputs_pass():
    """Sorting them is the caller's."""

    class TagFn(TimedFn):
        def process(self, element, tracker):
            for _, position in super().process(element, tracker):
                yield TaggedOutput("bad", position)

    outputs = list(Bundle(TagFn(), items_of((0, 2)), clock=Clock()).outputs())
    assert [(output.tag, output.value) for output in outputs] == [("bad", 0), ("bad", 1)]


def test_a_failing_work_item_names_itself():
    """The message has the element and the restriction of the work item."""

    class BreakFn(TimedFn):
        def process(self, element, tracker):
            yield from super().process(element, tracker)
            if element == "b":
                raise OSError("disk")

    bundle = Bundle(BreakFn(), items_of((0, 2), (5, 7)), clock=Clock())
    message = "BreakFn.process() on OffsetRange(start=5, stop=7) of element 'b' raised OSError: disk"
    with pytest.raises(ProcessError, match=re.escape(message)):
        list(bundle.outputs())


def test_unclaimed_work_fails_the_bundle():
    """As in every runner."""

    class LazyFn(TimedFn):
        def process(self, element, tracker):
            return []

    with pytest.raises(UnclaimedWorkError):
        list(Bundle(LazyFn(), items_of((0, 2)), clock=Clock()).outputs())


# Deferring


def test_a_deferred_rest_is_a_part():
    """The primary is what was claimed, with its own size; the residual has the delay."""
    bundle = bundle_of((0, 10), fn=DeferFn)
    list(bundle.outputs())
    part = Part(0, OffsetRange(0, 3), (Residual(OffsetRange(3, 10), 60, deferred=True),), 3, 0)
    assert bundle.outcome() == Outcome(1, (part,), 3, 0)


def test_all_deferred_is_a_part_without_a_primary():
    """Nothing of it was run."""
    bundle = Bundle(DeferFn(), items_of((0, 10), elements=["later"]), clock=Clock())
    list(bundle.outputs())
    part = Part(0, None, (Residual(OffsetRange(0, 10), 60, deferred=True),), 0, 0)
    assert bundle.outcome() == Outcome(1, (part,), 0, 0)


def test_part_of_unknown_size_counts_half():
    """Whoever does not know the sizes guesses half."""

    class UnsizedDeferFn(DeferFn, UnsizedFn):
        pass

    bundle = Bundle(UnsizedDeferFn(), items_of((0, 10), size=False), clock=Clock())
    list(bundle.outputs())
    assert bundle.outcome().units == 0.5


# Handing back


def test_hand_back_gives_back_what_was_not_started_and_splits_what_runs():
    """[0, 10) after 4 claims: [0, 4) stays, the rest and the other work items go."""
    bundle = bundle_of((0, 10), (0, 5), (0, 7))
    outputs = bundle.outputs()
    first = take(outputs, 4)
    answer = bundle.hand_back(0)
    assert (answer, first + list(outputs), bundle.outcome().started) == (True, [("a", i) for i in range(4)], 1)
    assert bundle.outcome().parts == (Part(0, OffsetRange(0, 4), (Residual(OffsetRange(4, 10)),), 4, 4),)


def test_hand_back_between_two_work_items():
    """Those before are whole, the running one is split, those after are given back."""
    bundle = bundle_of((0, 2), (0, 10), (0, 7))
    outputs = bundle.outputs()
    take(outputs, 5)
    bundle.hand_back(0)
    rest = list(outputs)
    outcome = bundle.outcome()
    assert (rest, outcome.started, [tuple(part.primary) for part in outcome.parts]) == ([], 2, [(0, 3)])
    assert (outcome.units, outcome.seconds) == (5, 5)


def test_seconds_of_a_part_are_its_own():
    """Not those of the work items before it."""
    bundle = bundle_of((0, 2), (0, 10))
    outputs = bundle.outputs()
    take(outputs, 5)
    bundle.hand_back(0)
    list(outputs)
    assert [part.seconds for part in bundle.outcome().parts] == [3]


@pytest.mark.parametrize(("min_piece_seconds", "split"), [(0, True), (9.3, True), (9.4, False), (1000, False)])
def test_hand_back_only_where_it_is_worth_it(min_piece_seconds, split):
    """[0, 10) after the fourth claim, 4 seconds on: 3 are done, so 7 are left at 4/3 seconds each."""
    bundle = bundle_of((0, 10))
    outputs = bundle.outputs()
    take(outputs, 4)
    bundle.hand_back(min_piece_seconds)
    assert len(list(outputs)) == (0 if split else 6)


def test_hand_back_of_unstarted_work_only():
    """The running one has too little left, what follows it does not."""
    bundle = bundle_of((0, 10), (0, 1000))
    outputs = bundle.outputs()
    take(outputs, 9)
    assert (bundle.hand_back(50), len(list(outputs)), bundle.outcome().started) == (False, 1, 1)


def test_hand_back_of_nothing_worth_it_keeps_all():
    """False, and the bundle goes on."""
    bundle = bundle_of((0, 10), (0, 10))
    outputs = bundle.outputs()
    take(outputs, 9)
    assert (bundle.hand_back(10_000), len(list(outputs)), bundle.outcome().started) == (False, 11, 2)


def test_hand_back_counts_what_is_left_of_unstarted_work():
    """20 seconds are left in all, though only 2 in the running work item."""
    bundle = bundle_of((0, 10), (0, 10), (0, 10))
    outputs = bundle.outputs()
    take(outputs, 9)
    bundle.hand_back(15)
    assert (len(list(outputs)), bundle.outcome().started) == (1, 1)


def test_hand_back_of_what_cannot_be_split_gives_back_the_unstarted():
    """An atomic work item is finished by its task."""
    bundle = bundle_of((0, 1), (0, 1), fn=AtomicFn)
    outputs = bundle.outputs()
    take(outputs, 1)
    assert (bundle.hand_back(0), list(outputs), bundle.outcome()) == (False, [], Outcome(1, (), 1, 1))


def test_hand_back_of_unsplittable_work_stops_it():
    """Ordered work is not shared out, but it can be stopped and resumed."""
    bundle = bundle_of((0, 10), fn=AtomicFn)
    outputs = bundle.outputs()
    take(outputs, 4)
    assert (bundle.hand_back(0), list(outputs)) == (True, [])


@pytest.mark.parametrize("min_piece_seconds", [0, 1000])
def test_hand_back_before_the_first_work_item_keeps_all(min_piece_seconds):
    """Each task starts at least one work item, else a short budget would get nowhere."""
    bundle = bundle_of((0, 3), (0, 4))
    answers = [bundle.hand_back(min_piece_seconds), bundle.hand_back(min_piece_seconds)]
    assert (answers, len(list(bundle.outputs())), bundle.outcome()) == ([False, False], 7, Outcome(2, (), 7, 7))


def test_hand_back_while_the_bundle_starts_keeps_all():
    """A slow start_bundle() is not the work items' fault."""
    answers = []

    class SlowFn(TimedFn):
        def start_bundle(self):
            self.clock.now += 3600
            answers.append(bundle.hand_back(0))

    bundle = bundle_of((0, 3), (0, 4), fn=SlowFn)
    assert (len(list(bundle.outputs())), answers, bundle.outcome().started) == (7, [False], 2)


def test_hand_back_with_nothing_to_do():
    """A bundle without work items has nothing to give back."""
    bundle = bundle_of()
    before = bundle.hand_back(0)
    assert (before, list(bundle.outputs()), bundle.hand_back(0)) == (False, [], False)


@pytest.mark.parametrize("seconds", [0, 5])
@pytest.mark.parametrize("min_piece_seconds", [0, 1000])
def test_hand_back_with_nothing_done_gives_back_the_unstarted(min_piece_seconds, seconds):
    """As long as nothing is done the cost is unknown, and so is what the others are worth; the running one ends."""
    answers = []

    class AskFn(TimedFn):
        def process(self, element, tracker):
            self.clock.now += seconds
            answers.append(bundle.hand_back(min_piece_seconds))
            yield from super().process(element, tracker)

    bundle = bundle_of((0, 3), (0, 4), (0, 5), fn=AskFn)
    found = list(bundle.outputs())
    assert (found, answers, bundle.outcome().started) == ([("a", 0), ("a", 1), ("a", 2)], [False], 1)


@pytest.mark.parametrize(("after_seconds", "started"), [(0, 3), (9, 3), (10, 2), (3600, 2)])
def test_hand_back_expects_of_one_that_just_began_what_the_others_took(after_seconds, started):
    """Ten seconds as the first: two such are not worth 21. One that takes longer is taken to take as long again."""
    bundle = None

    class AskFn(TimedFn):
        def process(self, element, tracker):
            if len(bundle.outcome().ran) == 1:
                self.clock.now += after_seconds
                bundle.hand_back(21)
            yield from super().process(element, tracker)

    bundle = bundle_of((0, 10), (0, 10), (0, 10), fn=AskFn)
    assert (len(list(bundle.outputs())), bundle.outcome().started) == (10 * started, started)


@pytest.mark.parametrize(("late_seconds", "started"), [(2, 100), (19, 100), (21, 97)])
def test_hand_back_keeps_the_last_few_though_the_one_that_runs_is_late(late_seconds, started):
    """Of 100 work items of a second three are left, and the 97th has run for so long: 3 and as long again."""
    bundle = None

    class AskFn(TimedFn):
        def process(self, element, tracker):
            if element == 96:
                self.clock.now += late_seconds
                bundle.hand_back(23)
            yield from super().process(element, tracker)

    bundle = bundle_of(*[(0, 1)] * 100, elements=range(100), fn=AskFn)
    assert (len(list(bundle.outputs())), bundle.outcome().started) == (started, started)


def test_hand_back_of_what_turns_dear_near_its_end():
    """By the mean of all that it did the last ten would seem to take 20 seconds; they take a thousand."""

    class DearFn(TimedFn):
        def process(self, element, tracker):
            for output in super().process(element, tracker):
                self.clock.now += 99 if output[1] >= 90 else 0
                yield output

    bundle = bundle_of((0, 100), fn=DearFn)
    outputs = bundle.outputs()
    for _ in range(93):
        next(outputs)
        bundle.note_claim()
    assert bundle.hand_back(200)
    assert len(list(outputs)) == 0


def test_hand_back_with_nothing_done_gives_back_unstarted_work_of_size_zero():
    """No size says what it costs."""

    class AskFn(TimedFn):
        def process(self, element, tracker):
            bundle.hand_back(1000)
            return []

    bundle = bundle_of((3, 3), (3, 3), (3, 3), fn=AskFn)
    assert (list(bundle.outputs()), bundle.outcome().started) == ([], 1)


def test_hand_back_before_the_first_claim_does_not_split():
    """A work item that has claimed nothing is not split (b/32044): ask again."""
    answers = []

    class AskFn(TimedFn):
        def process(self, element, tracker):
            answers.append(bundle.hand_back(0))
            yield from super().process(element, tracker)

    bundle = Bundle(AskFn(), items_of((0, 10)), clock=Clock())
    assert (len(list(bundle.outputs())), answers) == (10, [False])


def test_hand_back_when_all_is_done():
    """Nothing is left; nothing happens."""
    bundle = bundle_of((0, 3))
    list(bundle.outputs())
    assert (bundle.hand_back(0), bundle.outcome()) == (False, Outcome(1, (), 3, 3))


def test_hand_back_twice_splits_once():
    """Nothing is left for the second."""
    bundle = bundle_of((0, 10), (0, 10))
    outputs = bundle.outputs()
    take(outputs, 4)
    bundle.hand_back(0)
    bundle.hand_back(0)
    list(outputs)
    assert [len(part.residuals) for part in bundle.outcome().parts] == [1]


def test_hand_back_without_known_sizes():
    """Half of the running work item is taken for done, so that it can be split all the same."""
    bundle = bundle_of((0, 10), (0, 10), fn=UnsizedFn, size=False)
    outputs = bundle.outputs()
    take(outputs, 4)
    assert (bundle.hand_back(0), list(outputs), bundle.outcome().started) == (True, [], 1)


@pytest.mark.parametrize("at", range(1, 25))
def test_hand_back_after_every_output_loses_nothing(at):
    """Wherever a task is stopped, what it ran and what it gave back tile the elements; run on, all is there once."""
    bounds = [(0, 10), (3, 3), (0, 1), (0, 13)]
    ledger = Ledger(lambda element, restriction: restriction.stop - restriction.start)
    todo = []
    for element, (start, stop) in zip("abcd", bounds, strict=True):
        todo += ledger.add_element(element, OffsetRange(start, stop), [(OffsetRange(start, stop), stop - start)])
    found, task, splits = [], 0, 0
    while todo:
        clock = Clock()
        bundle = Bundle(TimedFn(clock), todo, clock=clock)
        ledger.assign(task, todo)
        for number, output in enumerate(bundle.outputs(), 1):
            found.append(output)
            if number == at:
                bundle.hand_back(0)
        outcome = bundle.outcome()
        splits += len(outcome.parts)
        todo = [item for item, _ in ledger.commit(task, 0, outcome)]
        task += 1
    ledger.prove()
    expected = [(element, i) for element, bound in zip("abcd", bounds, strict=True) for i in range(*bound)]
    assert sorted(found) == expected
    assert task > 1 or at in (10, 11, 24)


def test_hand_back_from_another_thread_loses_nothing():
    """A second thread hands back while the first one runs; what was run and given back tile the elements."""
    handed_back, wrong = 0, []
    for trial in range(50):
        ledger = Ledger(lambda element, restriction: restriction.stop - restriction.start)
        items = []
        for element in "abc":
            items += ledger.add_element(element, OffsetRange(0, 200), [(OffsetRange(0, 200), 200)])
        started, asked = threading.Event(), threading.Event()
        clock = Clock()
        bundle = Bundle(TimedFn(clock), items, clock=clock)
        found = []

        def run(bundle=bundle, found=found, started=started, asked=asked, trial=trial):
            for output in bundle.outputs():
                found.append(output)
                if len(found) == 1 + 11 * trial:
                    started.set()
                    asked.wait()

        runner = threading.Thread(target=run)
        runner.start()
        started.wait()
        answer = False
        while runner.is_alive() and not answer:
            answer = bundle.hand_back(0)
            asked.set()
        runner.join()
        ledger.assign("t", items)
        left = [item for item, _ in ledger.commit("t", 0, bundle.outcome())]
        handed_back += len(left)
        found += [(item.element, i) for item in left for i in range(*item.restriction)]
        if sorted(found) != [(element, i) for element in "abc" for i in range(200)]:
            wrong.append(trial)
    assert wrong == []
    assert handed_back > 0

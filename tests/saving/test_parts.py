"""Parts: the compact state that a reader of the log builds, against a model that is as simple as can be."""

import itertools

import pytest

from sdf.saving.parts import Part, Parts

SIZE = 3


class Model:
    """The parts of one element of three offsets, in order, each as [number, start, stop, committed]."""

    def __init__(self):
        self.parts = [[0, 0, SIZE, False]]
        self.next = 1

    def open(self):
        return [part for part in self.parts if not part[3]]

    def split(self, part, at):
        """Cut a part in two; ``at`` its start: all of it goes to the residual."""
        number, start, stop, _ = part
        index = self.parts.index(part)
        residual = [self.next, at, stop, False]
        self.next += 1
        self.parts[index : index + 1] = [residual] if at == start else [[number, start, at, False], residual]

    def take_over(self):
        joined = []
        for _, start, stop, committed in self.parts:
            if committed and joined and joined[-1][3]:
                joined[-1][2] = stop
            else:
                joined.append([len(joined), start, stop, committed])
        self.parts, self.next = joined, len(joined)


def state(parts):
    (element,) = parts.elements()
    return [(*part.data, part.committed) for part in element]


def joined(model):
    copy = Model()
    copy.parts = [list(part) for part in model.parts]
    copy.take_over()
    return [tuple(part[1:]) for part in copy.parts]


def replayed(events):
    """Return parts and model after some events, each (kind, index of an open part, where)."""
    parts, model = Parts(), Model()
    parts.add_element([([0, SIZE], float(SIZE))])
    for kind, index, at in events:
        if kind == "driver":
            parts = parts.renumbered()
            model.take_over()
            continue
        part = model.open()[index]
        if kind == "commit":
            parts.commit([[part[0], part[0]]])
            part[3] = True
        else:
            primary = None if at == part[1] else [part[1], at]
            parts.split(part[0], primary, [[[at, part[2]], None, False, 0]])
            model.split(part, at)
    return parts, model


def choices(model):
    yield "driver", 0, 0
    for index, (_, start, stop, _) in enumerate(model.open()):
        yield "commit", index, 0
        yield from (("split", index, at) for at in range(start, stop))


def test_all_that_may_happen_to_three_offsets():
    """In any order: splits, splits that keep nothing, commits, further drivers. Committed neighbours are one part."""
    sequences, states = [()], 0
    for _ in range(5):
        longer = []
        for events in sequences:
            _, model = replayed(events)
            for event in choices(model):
                parts, after = replayed((*events, event))
                assert state(parts) == joined(after), (*events, event)
                assert state(parts.renumbered()) == state(parts)
                longer.append((*events, event))
                states += 1
        sequences = longer
    assert states > 3000


def test_several_residuals_of_one_split_are_in_the_order_of_the_cuts():
    """The last one lies next to the primary."""
    parts = Parts()
    parts.add_element([([0, 9], 9.0)])
    parts.split(0, [0, 2], [[[7, 9], None, False, 0], [[2, 7], None, False, 0]])
    parts.commit([[1, 1]])
    assert state(parts) == [(0, 2, False), (2, 7, False), (7, 9, True)]


def test_elements_are_not_joined():
    """Though one may begin where the one before it stops."""
    parts = Parts()
    parts.add_element([([0, 5], 5.0)])
    parts.add_element([([5, 9], 4.0), ([9, 12], None)])
    parts.commit([[0, 2]])
    assert list(parts.elements()) == [
        [Part((0, 5), 5.0, committed=True)],
        [Part((5, 12), None, committed=True)],
    ]


def test_what_is_no_pair_of_offsets_is_never_joined():
    """Nothing is known of its order."""
    parts = Parts()
    parts.add_element([({"value": 1}, None), ({"value": 2}, None)])
    parts.commit([[0, 1]])
    assert [part.data for part in next(parts.elements())] == [{"value": 1}, {"value": 2}]


def test_watermark_and_due_time_stay_with_their_part():
    """Also for the next driver."""
    parts = Parts()
    parts.add_element([([0, 9], 9.0)])
    parts.split(0, None, [[[0, 9], "state", True, 1234]])
    expected = [[Part((0, 9), None, committed=False, watermark="state", due=1234)]]
    assert list(parts.elements()) == expected
    assert list(parts.renumbered().elements()) == expected
    assert list(parts.renumbered().renumbered().elements()) == expected


@pytest.mark.parametrize(
    "event",
    [
        lambda parts: parts.commit([[0, 0]]),
        lambda parts: parts.commit([[1, 2]]),
        lambda parts: parts.commit([[3, 3]]),
        lambda parts: parts.commit([[-1, -1]]),
        lambda parts: parts.split(0, [0, 1], []),
        lambda parts: parts.split(1, [0, 1], []),
        lambda parts: parts.split(7, [0, 1], []),
    ],
)
def test_what_cannot_happen_is_an_error(event):
    """A commit or a split of what is committed, was given away whole, or was never there."""
    parts = Parts()
    parts.add_element([([0, 5], 5.0), ([5, 9], 4.0)])
    parts.split(1, None, [[[5, 9], None, True, 0]])
    parts.commit([[0, 0]])
    with pytest.raises(ValueError, match="is not there, or is committed or set aside already"):
        event(parts)


def test_parts_of_many_elements_come_in_order():
    """Each with its own."""
    parts = Parts()
    for number in range(100):
        parts.add_element([([number, number + 3], 3.0)])
    for number in range(0, 100, 3):
        parts.split(number, [number, number + 1], [[[number + 1, number + 3], None, False, 0]])
    found = list(itertools.chain.from_iterable(parts.elements()))
    assert [part.data for part in found] == [
        pair
        for number in range(100)
        for pair in ([(number, number + 1), (number + 1, number + 3)] if number % 3 == 0 else [(number, number + 3)])
    ]

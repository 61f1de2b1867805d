"""Parts of a stream's work, dealt out to tasks."""

from itertools import pairwise

from sdf.journal.pending import Pending
from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.even_shares import even_shares


class SizedFn(DoFn):
    """Element: a name and a size."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


def parts(*sizes):
    return [Pending(0, (name, size), OffsetRange(0, size), due=7) for name, size in zip("abcdef", sizes, strict=False)]


def test_a_task_has_its_parts_in_the_order_in_which_they_came():
    """So one that is always large does not keep the others from their turn."""
    (task,) = even_shares(SizedFn(), parts(1, 1, 1000), 1)
    assert [one.element[0] for one in task] == ["a", "b", "c"]


def test_what_is_too_large_for_one_task_is_cut():
    """All parts are dealt out once, and are due when they were."""
    tasks = even_shares(SizedFn(), parts(1, 99, 2), 3)
    bounds = {}
    for one in (one for task in tasks for one in task):
        bounds.setdefault(one.element[0], []).append((one.restriction.start, one.restriction.stop))
        assert one.due == 7
    assert len(tasks) == 3
    assert (bounds["a"], bounds["c"]) == ([(0, 1)], [(0, 2)])
    cut = sorted(bounds["b"])
    assert len(cut) > 1
    assert (cut[0][0], cut[-1][1]) == (0, 99)
    assert all(before[1] == after[0] for before, after in pairwise(cut))

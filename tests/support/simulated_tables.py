"""Seeded simulations of runs whose elements are in tables: of lanes, and of stages."""

import itertools
import pickle
from array import array
from collections import Counter
from unittest.mock import patch

from sdf.execution.bulk.table import ROWS_OF_BLOB, Rows, Table
from sdf.execution.executor import run_to_end
from sdf.execution.expansion import Expanded, checked_size, expand
from sdf.model.offset_trackers import OffsetRangeTracker
from sdf.scheduling.run_state import RunState
from sdf.spark.staged import run as run_module
from support.simulated_lanes import NumbersFn, Simulation
from support.simulated_stages import MOST_RETRIES, Schedule, Stages


def in_tables(fn, elements, most):
    """Expand elements; yield those that must be alone, and the others in tables of at most so many rows."""
    rows = []
    for element in elements:
        one = expand(fn, element)
        tracker = fn.create_tracker(element, one.restriction)
        if len(one.pieces) > 1 or one.pieces[0][1] is None or not isinstance(tracker, OffsetRangeTracker):
            yield one
            continue
        rows.append(one)
        if len(rows) == most:
            yield table_of(fn, rows)
            rows = []
    if rows:
        yield table_of(fn, rows)


def table_of(fn, rows):
    """Return expanded elements as one table."""
    elements = [one.element for one in rows]
    blobs = (pickle.dumps(elements[at : at + ROWS_OF_BLOB]) for at in range(0, len(elements), ROWS_OF_BLOB))
    starts = array("q", [one.restriction.start for one in rows])
    stops = array("q", [one.restriction.stop for one in rows])
    table = Table(0, tuple(blobs), starts, stops, array("d", [one.pieces[0][1] for one in rows]))
    whole = table.whole()
    return Expanded(table, whole, ((whole, checked_size(fn, table, whole)),))


def rows_in(expanded):
    """Return how many elements are in tables."""
    return sum(len(one.element) for one in expanded if type(one.element) is Table)


class TableSimulation(Simulation):
    """Lanes. Elements that may be in a table are: in tables of one row to all of them."""

    most = 1, 2, 5, 100  # rows of a table: one of these

    def begin(self):
        self.work = RunState(self.fn)
        expanded = [*in_tables(self.fn, self.elements, self.random.choice(self.most))]
        self.rows = rows_in(expanded)
        self.serve(self.work.add(expanded))

    def send_to_lane(self, number, message):
        super().send_to_lane(number, pickle.loads(pickle.dumps(message)))

    def check_pieces(self, report):
        """Rows that ran together are one piece, which has the records of those that ran long, too."""
        assert sum(piece.records for piece in report.pieces) == report.records
        assert report.elements == len(self.elements)
        names = set(self.elements)
        for piece in report.pieces:
            assert piece.elements > 1 or piece.element in names
        assert all(element in names for element in report.split_elements)


class RefusedFn(NumbersFn):
    """Some elements defer before their first claim, too, once; nothing tells so before."""

    def __init__(self, delay_seconds=0.5):
        self.delay_seconds = delay_seconds
        self.refused = set()

    def process(self, element, tracker):
        if "refused" in element[0] and element[0] not in self.refused:
            self.refused.add(element[0])
            tracker.defer_remainder(self.delay_seconds)
            return
        yield from super().process(element, tracker)


class TableStages(Stages):
    """Stages over elements in tables. Workers are killed, and Spark runs their tasks again."""

    def expand(self, elements):
        expanded = [*in_tables(self.world.fn, elements, self.world.most)]
        self.counts["rows"] += rows_in(expanded)
        return expanded

    def is_killed(self, task):
        killed = task.retries < MOST_RETRIES and self.random.random() < 0.002
        self.counts["workers killed"] += killed
        return killed


class StagedTables(Schedule):
    """One schedule over elements of which a few are dear and some defer, in tables of one row to all of them."""

    stages = TableStages

    def begin(self, choose):
        names = ["", "", "", "", "", "", "defers", "refused", "unsized", "parts", "whole"]
        few = [f"{choose.choice(names)} dear" for _ in range(choose.randint(0, 2))]
        many = [choose.choice(names) for _ in range(choose.choice([3, 30, 300]))]
        kinds = choose.sample(few + many, len(few) + len(many))
        self.elements = [(f"{number} {kind}", choose.choice([0, 1, 1, 2, 5, 20])) for number, kind in enumerate(kinds)]
        self.most = choose.choice([1, 2, 5, 100, 1000])
        self.fn = RefusedFn()
        super().begin(choose)

    def seconds_of(self, record):
        return 0.2 if "dear" in record[0] else self.block_seconds

    def check(self):
        """All blocks are there once, also where all that was stored is lost; return the counts."""
        with patch.object(run_module, "time", self.clock):
            run = self.staged()
            report = run.run_stages()
        wanted = Counter((name, i) for name, size in self.elements for i in range(size))
        found = [self.written[str(receipt.stamp.attempt)] for receipt, _ in run.committed()]
        assert Counter(itertools.chain.from_iterable(found)) == wanted, "not exactly once"
        for records, (_, content) in zip(found, run.committed(), strict=True):
            assert Counter(self.replayed(content)) == Counter(records), "a replay gave something else"
        assert report.elements == len(self.elements)
        assert sum(piece.records for piece in report.pieces) == report.records == wanted.total()
        assert set(report.split_elements) <= set(self.elements)
        for receipt, _ in run.committed():
            self.note(receipt.outcome.parts)
        return self.counts

    def replayed(self, content):
        items = pickle.loads(pickle.dumps(content))
        return run_to_end(self.fn, items, clock=self.clock.monotonic, sleep=lambda seconds: None)

    def note(self, parts):
        """Count what the committed attempts did with the rows of tables."""
        for part in parts:
            if not isinstance(part.residuals[-1].restriction, Rows):
                continue
            nearest = part.residuals[-1]
            inside = nearest.restriction.start[1] > 0
            if nearest.deferred:
                self.counts["deferred inside a row" if inside else "deferred before a claim"] += 1
            else:
                self.counts["cut inside a row" if inside else "cut between rows"] += 1
            self.counts["rows behind"] += len(part.residuals) > 1

"""A seeded simulation of one run of lanes (`support.simulated_lanes`) whose elements are in tables."""

import pickle
from array import array

from sdf.execution.bulk.table import ROWS_OF_BLOB, Table
from sdf.execution.expansion import Expanded, checked_size, expand
from sdf.model.offset_trackers import OffsetRangeTracker
from sdf.scheduling.run_state import RunState
from support.simulated_lanes import Simulation


class TableSimulation(Simulation):
    """Elements that may be in a table are: in tables of one row to all of them."""

    def begin(self):
        self.work, self.rows = RunState(self.fn), 0
        self.serve(self.work.add(self.expanded()))

    def expanded(self):
        rows, most = [], self.random.choice([1, 2, 5, 100])
        for element in self.elements:
            one = expand(self.fn, element)
            tracker = self.fn.create_tracker(element, one.restriction)
            if len(one.pieces) > 1 or one.pieces[0][1] is None or not isinstance(tracker, OffsetRangeTracker):
                yield one
                continue
            rows.append(one)
            if len(rows) == most:
                yield self.table_of(rows)
                rows = []
        if rows:
            yield self.table_of(rows)

    def table_of(self, rows):
        self.rows += len(rows)
        elements = [one.element for one in rows]
        blobs = (
            pickle.dumps(elements[at : at + ROWS_OF_BLOB]) for at in range(0, len(elements), ROWS_OF_BLOB)
        )  # fmt: skip
        starts = array("q", [one.restriction.start for one in rows])
        stops = array("q", [one.restriction.stop for one in rows])
        table = Table(0, tuple(blobs), starts, stops, array("d", [one.pieces[0][1] for one in rows]))
        whole = table.whole()
        return Expanded(table, whole, ((whole, checked_size(self.fn, table, whole)),))

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

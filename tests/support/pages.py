"""Reports for the tests of pages, of any number of pieces."""

from sdf import OffsetRange, RunReport, StreamProgress
from sdf.reporting.pieces import PieceRun
from sdf.reporting.run_facts import TaskRun


def report_of(pieces, *, slots=8, elements=3):
    """A straggler, element 0, of which all slots run pieces, and a few small elements beside it."""
    began, each = 1_700_000_000.0, 0.5
    tasks = tuple(
        TaskRun(0, slot, f"host/{slot}", began, each * pieces / slots, pieces // slots, 0, 10 * pieces // slots)
        for slot in range(slots)
    )
    runs = tuple(
        PieceRun(
            id=number,
            element_id=number if 0 < number < elements else 0,
            element=f"file-{number if 0 < number < elements else 0}.txt",
            restriction=OffsetRange(10 * number, 10 * number + 10),
            origin="initial" if number < elements else "cut while it ran",
            parent=None if number < elements else 0 if number % 3 else number - 1,
            task=number % slots,
            began=began + each * (number // slots),
            seconds=each * 0.98,
            units=10.0,
            records=10,
        )
        for number in range(pieces)
    )
    return RunReport(
        name="ReadLines",
        elements=elements,
        stages=1,
        splits=pieces - elements,
        split_elements=("file-0.txt",),
        seconds=each * pieces / slots,
        slots=slots,
        tasks=tasks,
        pieces=runs,
        slow_blocks=(("file-0.txt", "4000", 1.25), ("file-0.txt", "17", 0.5)),
        refusals=(("too little was left", 3),),
        slots_over_time=((0.0, 2), (0.5, 5), (1.0, slots)),
        notes=(("file-1.txt", "gzip is read whole"),),
    )


def history_of(batches):
    """The batches of a stream that catches up."""
    return [
        StreamProgress(
            name="WatchFiles, TailLines",
            batch=number + 1,
            batches=number + 1,
            records=100 + number % 7,
            all_records=103 * (number + 1),
            backlog=max(0, 50 - number),
            watermark=1_700_000_000.0 + number,
            lag_seconds=max(0.5, 60.0 - number),
            seconds=0.4 + 0.1 * (number % 3),
        )
        for number in range(batches)
    ]

"""No I/O at all: a parameter sweep in which some parameters cost far more than others. python examples/sweep.py"""

from pyspark import SparkContext

from sdf import DoFn, OffsetRange, run_sdf

ROWS, COLUMNS, MOST_STEPS = 240, 320, 2000


class Mandelbrot(DoFn):
    """Element: (left, top, width) of a view. Position: a row of pixels. Output: (row, steps of each pixel)."""

    def get_initial_restriction(self, view):
        return OffsetRange(0, ROWS)

    def process(self, view, tracker):
        left, top, width = view
        for row in tracker.claims():
            c = [complex(left + width * x / COLUMNS, top - width * row / COLUMNS) for x in range(COLUMNS)]
            yield row, [steps(point) for point in c]


def steps(c):
    """Count the steps until z leaves the circle of radius 2; points that never do are what costs."""
    z, count = 0j, 0
    while abs(z) <= 2 and count < MOST_STEPS:
        z, count = z * z + c, count + 1
    return count


if __name__ == "__main__":
    views = [(-2.2, 1.2, 3.2), (0.3, 1.2, 0.5), (-2.2, 1.5, 0.1)]  # the first holds nearly all of the work
    with SparkContext.getOrCreate() as sc:
        rows = run_sdf(sc.parallelize(views), Mandelbrot())
        inside = rows.map(lambda row: sum(count == MOST_STEPS for count in row[1])).sum()
        print(f"{inside} of {len(views) * ROWS * COLUMNS} points never leave")
        print(rows.report)

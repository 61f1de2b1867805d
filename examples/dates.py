"""A custom restriction, the days of a period, with its tracker: python examples/dates.py"""

import datetime

import attrs
from pyspark import SparkContext

from sdf import DoFn, Progress, RestrictionTracker, run_sdf

DAY = datetime.timedelta(days=1)


@attrs.frozen
class Period:
    """The days from start up to, not including, stop. With these two names, a run can prove that parts add up."""

    start: datetime.date
    stop: datetime.date


class PeriodTracker(RestrictionTracker):
    def __init__(self, period):
        self.period, self.next_day = period, period.start

    def current_restriction(self):
        return self.period

    def try_claim(self, day):
        self.next_day = day + DAY
        return day < self.period.stop

    def try_split(self, fraction_of_remainder):
        days = (self.period.stop - self.next_day).days
        if days < 1:
            return None
        cut = self.next_day + int(days * fraction_of_remainder) * DAY
        if cut == self.period.stop:
            return None
        self.period, residual = Period(self.period.start, cut), Period(cut, self.period.stop)
        return self.period, residual

    def check_done(self):
        if self.next_day < self.period.stop:
            raise ValueError(f"nobody claimed {self.next_day} and what follows")

    def progress(self):
        days = (self.period.stop - self.period.start).days
        done = min(days, (self.next_day - self.period.start).days)
        return Progress(done, days - done)


class FridaysThe13th(DoFn):
    """Element: a year. Position: a day. Output: the Fridays that are a 13th."""

    def get_initial_restriction(self, year):
        return Period(datetime.date(year, 1, 1), datetime.date(year + 1, 1, 1))

    def create_tracker(self, year, period):
        return PeriodTracker(period)

    def process(self, year, tracker):
        day = tracker.current_restriction().start
        while tracker.try_claim(day):
            if day.day == 13 and day.weekday() == 4:
                yield day.isoformat()
            day += DAY


if __name__ == "__main__":
    with SparkContext.getOrCreate() as sc:
        days = run_sdf(sc.parallelize(range(2020, 2030)), FridaysThe13th())
        print(sorted(days.collect()))

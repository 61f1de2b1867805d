"""A clock that a test moves."""


class Clock:
    """Stands still unless a test moves ``now``; the unit is that of whoever asks it."""

    def __init__(self, now=100.0):
        self.now = now

    def __call__(self):
        return self.now

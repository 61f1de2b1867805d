"""Watch: each output of a function that is polled, once; and when that ends."""

import re

import pytest
from support.following import Following

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.io import MatchFiles, Polled, Watch
from sdf.io.follow import clock, polling


def follow(*polls, **options):
    """Watch a function whose polls give these outputs, one list after the other."""
    left = list(polls)
    return Following(Watch(lambda element: left.pop(0), **{"interval_seconds": 7, **options}), "element")


def test_each_output_is_given_once():
    """Whenever it comes, in its order; also if it goes and comes back."""
    watch = follow(["a", "b"], ["b", "a", "d", "c", "c"], [], ["a", "e"])
    assert watch.read() == ["a", "b"]
    assert (watch.read(), watch.delay_seconds) == (["d", "c"], 7)
    assert watch.read() == []
    assert watch.read() == ["e"]
    watch.again()


def test_a_scanner_of_ones_own_gives_files(tmp_path):
    """It chooses among those that MatchFiles lists; a file that has changed is given again."""
    (tmp_path / "empty").touch()
    (tmp_path / "full").write_text("a")
    watch = Following(Watch(lambda path: [one for one in MatchFiles().list(path) if one.size > 0]), str(tmp_path))
    assert [file.path for file in watch.read()] == [str(tmp_path / "full")]
    assert watch.read() == []
    (tmp_path / "empty").write_text("b")
    (tmp_path / "full").write_text("ab")
    assert [file.size for file in watch.read()] == [1, 2]
    watch.again()


def test_a_poll_without_news_claims_nothing():
    """So a stream that idles writes no blocks."""
    watch = follow(["a"], ["a"], [])
    assert [watch.read() for _ in range(3)] == [["a"], [], []]
    assert len(watch.pins) == 1


def test_outputs_with_one_key_are_one():
    """Such as the versions of a row."""
    watch = follow([{"id": 1, "n": 1}], [{"id": 1, "n": 2}, {"id": 2, "n": 1}], key=lambda row: row["id"])
    assert watch.read() == [{"id": 1, "n": 1}]
    assert watch.read() == [{"id": 2, "n": 1}]


def test_a_key_that_cannot_be_hashed():
    """The message says what to do."""
    with pytest.raises(InvalidTypeError, match=re.escape("Watch cannot tell whether it has seen {'id': 1} of element")):
        follow([{"id": 1}]).read()


def test_a_key_that_does_not_equal_itself():
    """It would be a new output at each poll, and never be quiet."""
    nan = float("nan")
    with pytest.raises(InvalidValueError, match="Watch would take nan of element 'element' for a new output at each"):
        follow([nan]).read()
    assert follow([("a", nan)], key=lambda pair: pair[0]).read() == [("a", nan)]


def test_a_poll_that_returns_nothing_to_iterate():
    """The message says which function, and what it returned."""
    with pytest.raises(InvalidTypeError, match=r"Watch poll must return an iterable of outputs .got None"):
        follow(None).read()


def test_it_ends_when_it_is_told_to():
    """What the last poll gave is given; then there is nothing left."""
    watch = follow(["a"], ["a", "end"], until=lambda polled: "end" in polled.outputs)
    assert watch.read() == ["a"]
    assert (watch.read(), watch.delay_seconds) == (["end"], 0)
    assert watch.fn.create_tracker("element", watch.left).is_bounded()
    assert (watch.read(), watch.left) == ([], None)
    watch.again()


def test_until_is_told_the_time(monkeypatch):
    """Since the element came, and since there was something new."""
    now, told = [100.0], []
    monkeypatch.setattr(polling, "now", lambda: now[0])
    watch = follow(["a"], ["a"], ["a", "b"], ["b"], until=lambda polled: told.append(polled) or polled.seconds > 35)
    while watch.left is not None:
        now[0] += 10
        watch.read()
    assert told == [
        Polled("element", ("a",), 10.0, 0.0),
        Polled("element", ("a",), 20.0, 10.0),
        Polled("element", ("a", "b"), 30.0, 0.0),
        Polled("element", ("b",), 40.0, 10.0),
    ]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Watch("poll"), InvalidTypeError, "Watch poll must be a function (got 'poll')"),
        (lambda: Watch(None), InvalidTypeError, "Watch poll must be a function (got None)"),
        (lambda: Watch(list, until=5), InvalidTypeError, "Watch until must be a function (got 5)"),
        (lambda: Watch(list, key="id"), InvalidTypeError, "Watch key must be a function (got 'id')"),
        (lambda: Watch(list, interval_seconds=-1), InvalidValueError, "Watch interval_seconds must be a number >= 0"),
        (lambda: Watch(list, interval=1), InvalidTypeError, "Did you mean interval_seconds=?"),
    ],
)
def test_wrong_options_are_named(make, error, message):
    """When the DoFn is made."""
    with pytest.raises(error, match=re.escape(message)):
        make()


@pytest.mark.parametrize("step", [-(10**9), -3600, 3600, 10**9])
def test_a_step_of_the_systems_clock_is_no_time_that_passes(monkeypatch, step):
    """Else it would end a watch for ever."""
    before = clock.now()
    monkeypatch.setattr(clock.time, "time", lambda real=clock.time.time: real() + step)
    assert abs(clock.now() - before) < 1000


@pytest.mark.parametrize("step", [-(10**9), 0, 3600, 10**9])
def test_nor_is_one_while_the_stream_is_down(monkeypatch, step):
    """The next process has another clock, and does not know how long nobody polled."""
    at, told = [100.0], []
    monkeypatch.setattr(polling, "now", lambda: at[0])
    watch = follow(
        ["a"], ["a", "b"], *[["b"]] * 4, until=lambda polled: told.append(polled) or polled.quiet_seconds > 15
    )
    for _ in range(3):
        at[0] += 10
        watch.read()
    assert [(polled.seconds, polled.quiet_seconds) for polled in told] == [(10, 0), (20, 0), (30, 10)]
    told.clear()
    monkeypatch.setattr(polling, "CLOCK", "of the next process")
    at[0] += step
    while watch.left is not None:
        at[0] += 10
        watch.read()
    assert [(polled.seconds, polled.quiet_seconds) for polled in told] == [(20, 0), (30, 10), (40, 20)]

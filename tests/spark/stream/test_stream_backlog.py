"""How far a stream is behind: bytes of files, or what a DoFn says; in its progress, its page and its journal."""

import os

from support.following import GrowingFn

from sdf import UNBOUNDED, OffsetRange, Pace, Until, stream_sdf
from sdf.io import TailLines
from sdf.io.follow.tail_parts import Tail
from sdf.reporting.stream_page import stream_page
from sdf.saving.command import main


class CountedFn(GrowingFn):
    """Knows how many words are there; reads three at a time."""

    def backlog(self, element, restriction):
        with open(element) as file:
            return len(file.read().split()) - restriction.start, None

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        with open(element) as file:
            there = file.read().split()
        for i in range(start, min(len(there), start + 3) if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            yield there[i]
        if stop is UNBOUNDED:
            tracker.defer_remainder(0.05)


def test_a_stream_says_how_far_it_is_behind(sc, tmp_path, capsys):
    """In its progress and on its page; the journal says where each element stands."""
    words, shown = tmp_path / "words", []
    words.write_text("a b c d e f g h")
    summary = stream_sdf(
        sc.parallelize([str(words)]),
        CountedFn(),
        checkpoint=tmp_path / "journal",
        foreach_batch=lambda batch: None,
        pace=Pace(batch_seconds=0.1),
        until=Until(max_batches=2),
        progress=shown.append,
    )
    assert (shown[-1].behind_records, shown[-1].behind_bytes) == (2, None)
    assert summary.history[0].behind_records == 5
    assert "Records that were not read yet" in stream_page(summary.history)
    assert main(["show", str(tmp_path / "journal")]) == 0
    assert f"left: 0 CountedFn  '{words}'  OffsetRange(start=6, stop=UNBOUNDED)" in capsys.readouterr().out


def test_the_backlog_of_a_file_is_in_bytes(tmp_path):
    """From where it was read to its end; nothing is said of a file that is not there under its name."""
    path, fn = tmp_path / "a.log", TailLines()
    path.write_bytes(b"x" * 100)
    whole = fn.get_initial_restriction(str(path))
    assert fn.backlog(str(path), whole) == (None, 100)
    assert fn.backlog(str(path), Tail(70, UNBOUNDED, 0, whole.file)) == (None, 30)
    os.rename(path, tmp_path / "b.log")
    assert fn.backlog(str(path), whole) == (None, None)


def test_a_dofn_that_does_not_know_says_nothing():
    """As is the default."""
    assert GrowingFn().backlog("words", OffsetRange(0, UNBOUNDED)) == (None, None)

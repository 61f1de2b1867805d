"""A loss of power leaves the log of a saved run whole: what was appended is there, and a driver can go on."""

import itertools
import shutil

import pytest
from support.power_loss import Disk as Power
from support.power_loss import Recorder, restore

from sdf.saving import run_log
from sdf.saving.run_log import RunLog
from sdf.storage import ballots
from sdf.storage.disk import Disk

ENTRIES = 7


def opened(path, driver):
    """Read a log; return it with its records."""
    log = RunLog(Disk(path), driver=driver, clock=lambda: 0)
    return log, list(log.read())


def record(path, monkeypatch, recorder):
    """Write a log that packs by two; return the trace, how long it was after each entry, and the records."""
    lengths, records = [], []
    with monkeypatch.context() as patch:
        recorder.patch(patch)
        log, _ = opened(path, "first")
        for number in range(ENTRIES):
            records.append(["elements", log.put(f"blob {number}".encode())] if number in (1, 4) else ["entry", number])
            log.append([records[-1]])
            lengths.append(len(recorder.trace))
    return recorder.trace, lengths, records


@pytest.mark.parametrize("is_volume", [False, True], ids=["disk", "volume"])
def test_any_loss_of_power_leaves_a_log_to_go_on_with(tmp_path, monkeypatch, capsys, is_volume):
    """At every point of appending, packing and storing."""
    monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
    monkeypatch.setattr(run_log, "_PACKED", 2)
    live, after = tmp_path / "live", tmp_path / "after"
    live.mkdir()
    trace, lengths, records = record(live, monkeypatch, Recorder(is_volume=is_volume))
    seen = set()
    power = Power(live)
    Recorder(is_volume=is_volume).patch(monkeypatch)
    for length in range(len(trace) + 1):
        if length:
            power.apply(*trace[length - 1])
        known = sum(one <= length for one in lengths)
        for state in power.survivors(64):
            key = (known, tuple(sorted(state.items(), key=str)))
            if key in seen:
                continue
            seen.add(key)
            shutil.rmtree(after, ignore_errors=True)
            after.mkdir()
            restore(state, after)
            log, found = opened(after, "second")
            assert found == records[: len(found)]
            assert len(found) >= known
            for kind, *values in found:
                if kind == "elements":
                    assert log.get(*values).startswith(b"blob")
            more = [["more", number] for number in range(3)]
            for one in more:
                log.append([one])
            assert opened(after, "third")[1] == [*found, *more]
            log.remove_unused(list(itertools.chain.from_iterable(one[1:] for one in found if one[0] == "elements")))
            assert opened(after, "fourth")[1] == [*found, *more]
    assert len(seen) > 50
    with capsys.disabled():
        print(f"\nlost power at {len(trace) + 1} points, {len(seen)} states of the disk")

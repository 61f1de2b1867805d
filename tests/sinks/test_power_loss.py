"""A loss of power leaves a run that can be resumed: what a message names is there, the commit is all or nothing."""

import contextlib
import itertools
import os
import shutil
import uuid

import pytest
from support.power_loss import Disk, Recorder, restore
from support.sinking import TOKEN, DiedError, DyingModule, Points, place, prepare

from sdf.sinks import ParquetFiles, TextFiles, on_disk
from sdf.storage import ballots, disk

SEGMENTS = {"one": ["a", "b"], "two": ["c"]}


def record(sink, monkeypatch, recorder):
    """Run; return the trace, how long it was when each step had returned, and the messages."""
    steps, messages = {}, {}
    with monkeypatch.context() as patch:
        recorder.patch(patch, on_disk)
        prepare(sink)
        steps["prepare"] = len(recorder.trace)
        for name, records in SEGMENTS.items():
            messages[name] = sink.write(iter(records), place(name))
            steps[name] = len(recorder.trace)
        sink.commit(list(messages.values()), TOKEN)
        steps["commit"] = len(recorder.trace)
    return recorder.trace, steps, messages


def read(sink):
    if isinstance(sink, TextFiles):
        files = [name for name in os.listdir(sink.path) if not name.startswith("_")]
        return sorted(line for name in files for line in open(os.path.join(sink.path, name)).read().splitlines())
    return sorted(pytest.importorskip("duckdb").sql(f"select value from '{sink.path}/*.parquet'").fetchnumpy()["value"])


@pytest.mark.parametrize("is_volume", [False, True], ids=["disk", "volume"])
@pytest.mark.parametrize(
    "kind", [TextFiles, lambda path: ParquetFiles(path, compression=None)], ids=["text", "parquet"]
)
def test_any_loss_of_power_leaves_a_run_to_resume(kind, is_volume, tmp_path, monkeypatch, capsys):
    """At every point of preparing, writing and committing; a reader of a volume has to wait for the marker."""
    monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
    live, after = tmp_path / "live", tmp_path / "after"
    live.mkdir()
    trace, steps, messages = record(kind(live / "out"), monkeypatch, Recorder(is_volume=is_volume))
    seen = set()
    power = Disk(live)
    Recorder(is_volume=is_volume).patch(monkeypatch, on_disk)
    for length in range(len(trace) + 1):
        if length:
            power.apply(*trace[length - 1])
        known = {name: message for name, message in messages.items() if steps[name] <= length}
        for state in power.survivors(64):
            key = (len(known), steps["commit"] <= length, tuple(sorted(state.items(), key=str)))
            if key in seen:
                continue
            seen.add(key)
            shutil.rmtree(after, ignore_errors=True)
            after.mkdir()
            restore(state, after)
            sink = kind(after / "out")
            if os.path.exists(f"{sink.path}/_SUCCESS" if is_volume else sink.path):
                assert read(sink) == ["a", "b", "c"]
            else:
                assert length < steps["commit"]
            written = dict(known)
            prepare(sink, resumed=True)
            for name in SEGMENTS.keys() - known.keys():
                written[name] = sink.write(iter(SEGMENTS[name]), place(f"{name}-again"))
            sink.commit(list(written.values()), TOKEN)
            sink.clean(TOKEN)
            assert read(sink) == ["a", "b", "c"]
            assert os.listdir(after) == ["out"]
    assert len(seen) > 30
    with capsys.disabled():
        print(f"\nlost power at {len(trace) + 1} points, {len(seen)} states of the disk")


def test_what_a_dead_driver_did_not_come_to_sync_is_synced_before_it_is_built_on(tmp_path, monkeypatch):
    """It was killed, at any point; then the next driver committed; then power was lost."""
    for at in itertools.count(1):
        live, after = tmp_path / f"live-{at}", tmp_path / "after"
        live.mkdir()
        sink, recorder, written = TextFiles(live / "out"), Recorder(), {}
        points = Points(at)
        for module in (disk, on_disk):
            monkeypatch.setattr(module, "open", recorder.make, raising=False)
            monkeypatch.setattr(module, "os", DyingModule(recorder, points))
        with contextlib.suppress(DiedError):
            run(sink, written)
        for module in (disk, on_disk):
            monkeypatch.setattr(module, "os", recorder)
        run(sink, written)
        power = Disk(live)
        for step in recorder.trace:
            power.apply(*step)
        for state in power.survivors(64):
            restore(state, after)
            assert read(TextFiles(after / "out")) == ["a", "b", "c"]
            shutil.rmtree(after)
        if len(points.seen) < at:
            break
    assert at > 45


def run(sink, written):
    """Run, or go on, with what is written."""
    prepare(sink, resumed=True)
    for name, records in SEGMENTS.items():
        if name not in written:
            written[name] = sink.write(iter(records), place(f"{name}-{uuid.uuid4().hex}"))
    sink.commit(list(written.values()), TOKEN)

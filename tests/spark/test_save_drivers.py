"""Several drivers at one saved run, and workers that see another storage than the driver: one result, or an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import save_program
from support.save_program import ELEMENTS, RUNNERS, RowsFn, expected, rows

from sdf import save_sdf
from sdf.errors import SinkError
from sdf.sinks import JsonLinesFiles


@pytest.mark.soak
@pytest.mark.parametrize("runner", RUNNERS)
def test_of_five_drivers_started_at_once_one_saves(runner, tmp_path):
    """The last one to begin takes over; the others stop with an error that says so."""
    command = [sys.executable, save_program.__file__, str(tmp_path), runner, "disk"]
    drivers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(5)]
    said = [driver.communicate(timeout=300)[0] for driver in drivers]
    ended = [driver.returncode for driver in drivers]
    assert rows("disk", tmp_path) == expected()
    assert 0 in ended
    assert all("JournalFencedError" in text for text, code in zip(said, ended, strict=True) if code)
    print(f"\n{runner}: {ended.count(0)} of 5 drivers saved or found it saved, {5 - ended.count(0)} were overtaken")


@pytest.mark.soak
@pytest.mark.parametrize("runner", RUNNERS.values())
def test_workers_that_do_not_share_the_target_are_told_before_any_work(runner, tmp_path, monkeypatch):
    """Each process has another directory at that path: as when every host has a disk of its own there."""
    from pyspark import SparkConf, SparkContext

    here = tmp_path / "driver"
    here.mkdir()
    monkeypatch.chdir(here)
    conf = SparkConf().setMaster("local-cluster[2,1,1024]").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf)
    try:
        sc.setLogLevel("OFF")
        with pytest.raises(SinkError, match=r"is not there. Either this host sees another"):
            save_sdf(
                sc.parallelize(list(enumerate(ELEMENTS)), 2),
                RowsFn(str(tmp_path / "claims")),
                JsonLinesFiles("/proc/self/cwd/out"),
                runner=runner(),
            )
    finally:
        sc.stop()
    assert Path(tmp_path, "claims").read_text() == ""
    assert os.listdir(here) == ["_out.sdf"]

"""A log that the real logrotate rotates is followed, looked at now and then: each line is given once."""

import random
import shutil
import subprocess
import time

import pytest
from support.following import Following

from sdf.io import TailLines, WatchFiles
from sdf.io.follow.generation import generation

MODES = {"create": "create", "compress": "create\n compress", "delaycompress": "create\n compress\n delaycompress"}
STEPS = ["write"] * 3 + ["rotate", "scan", "look", "look", "scan and look", "wait"]
ROTATED_SECONDS = 0.05


@pytest.mark.skipif(not shutil.which("logrotate"), reason="logrotate is not installed")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(8))
def test_each_line_is_given_once(tmp_path, mode, seed):
    """Several rotations may lie between two looks: what was never seen as a log is read from its compressed copy."""
    logs, config, chance = tmp_path / "logs", tmp_path / "conf", random.Random(f"{mode} {seed}")
    logs.mkdir()
    log = logs / "app.log"
    config.write_text(f"{log} {{\n rotate 1000\n {MODES[mode]}\n}}\n")
    written, given, tails = [], [], []
    watch = Following(WatchFiles(modified="ignore", interval_seconds=0), str(logs))

    def write():
        with open(log, "a") as file:
            for _ in range(chance.randrange(1, 15)):
                written.append(f"{len(written):06d} {'x' * chance.randrange(30)}")
                file.write(f"{written[-1]}\n")

    def scan():
        tails.extend(Following(TailLines(rotated_seconds=ROTATED_SECONDS), file) for file in watch.read())

    def look():
        given.extend(line for tail in tails if tail.left is not None for line in tail.read())

    write()
    with open(log) as opened:
        if not generation(opened):
            pytest.skip("this file system may give an inode number again without a trace")
    for _ in range(60):
        what = chance.choice(STEPS)
        if what == "write":
            write()
        elif what == "rotate":
            command = ["logrotate", "--force", "--state", f"{config}.state", str(config)]
            subprocess.run(command, check=True, capture_output=True)
            write()
        elif what == "wait":
            time.sleep(ROTATED_SECONDS)
        if "scan" in what:
            scan()
        if "look" in what:
            look()
    for _ in range(14):
        scan()
        look()
    assert sorted(given) == written

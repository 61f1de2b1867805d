"""Saved runs whose Python, JVM or both are killed at random moments, again and again: no row is lost or doubled."""

import os
import random
from collections import Counter

import pytest
from support import save_program
from support.killing import kill_once
from support.save_program import CLAIM_SECONDS, COMMIT_SECONDS, RUNNERS, SLOTS, expected, rows

RUNS = int(os.environ.get("SDF_KILLED_RUNS", "6"))  # for each runner and sink
FIRST_SEED = int(os.environ.get("SDF_KILLED_FIRST_SEED", "0"))
MOST_LIVES = 25
# A resume does again what each slot had not committed: a segment, its close and the write to the log, up to a second.
AGAIN_SECONDS = COMMIT_SECONDS + 2.5


def live(home, runner, kind, choose, kills):
    """Run the program once; kill it at a random moment after Spark has started, later with each kill: it has to end."""
    log = home / "log"
    before = log.read_text().count("begins") if log.exists() else 0

    def begun():  # claims would not tell: workers of a JVM that was killed go on for a while
        return log.exists() and log.read_text().count("begins") > before

    program = [save_program.__file__, str(home), runner, kind]
    return kill_once(program, log, begun, choose.uniform(0.5, 3 * 1.25**kills), choose)


def lose_replies(server):
    """Have a server do what it is asked, and sometimes say nothing: the client asks again."""
    choose = random.Random(1)
    server.fs().call_s3("create_bucket", Bucket="bucket")
    server.disturb = lambda request: (
        "lose the reply" if request["REQUEST_METHOD"] in ("PUT", "POST") and choose.random() < 0.03 else None
    )


@pytest.mark.soak
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("kind", ["disk", "s3", "delta"])
def test_no_row_is_lost_or_doubled(kind, runner, tmp_path, request):
    """Nothing is visible before the end; what is done again per kill is bounded."""
    if kind == "s3":
        lose_replies(request.getfixturevalue("s3_server"))
    killed = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        choose = random.Random(f"{kind} {runner} {seed}")
        home = tmp_path / f"{kind}-{runner}-{seed}"
        home.mkdir()
        kills = 0
        for _ in range(MOST_LIVES):
            victim = live(home, runner, kind, choose, kills)
            if victim is None:
                break
            killed[victim] += 1
            kills += 1
            assert rows(kind, home) in (None, expected())
        assert rows(kind, home) == expected()
        claims = Counter((home / "claims").read_text().splitlines())
        again = (sum(claims.values()) - len(claims)) * CLAIM_SECONDS
        assert again <= kills * SLOTS * AGAIN_SECONDS
        print(f"\n{kind}, {runner}, seed {seed}: {kills} kills, {again:.1f} s of work done again")
    print(f"\n{kind}, {runner}: {RUNS} runs, killed {dict(killed)}")
    assert sum(killed.values()) > RUNS / 3  # a run may end before it is killed

"""The journal on a disk and on S3: drivers that write the same, journals of before, and the command line."""

import pytest

from sdf.errors import JournalFencedError
from sdf.journal.chain import VERSION, block_name, canonical, sha256, verify
from sdf.journal.journal import Journal
from sdf.saving.command import main
from sdf.storage.places import storage_at


@pytest.fixture(params=["disk", "S3"])
def place(request, tmp_path):
    if request.param == "disk":
        return str(tmp_path / "state")
    return f"s3://{request.getfixturevalue('s3_server').bucket()}/state"


def open_journal(place):
    return Journal(storage_at(place, "test"), config={"fns": ["TailFn"]}, inputs=["a"], clock=lambda: 100)


def commit(journal, state=b"left"):
    return journal.advance([1], 1, checkpoint=[journal.put(state)], watermark=None, status="running")


def test_of_two_drivers_that_write_the_same_one_is_fenced(place):
    """At the same time, to the millisecond: each would take the other's block for its own whose reply was lost."""
    one, two = open_journal(place), open_journal(place)
    commit(one)
    with pytest.raises(JournalFencedError):
        commit(two)
    assert open_journal(place).head == one.head


def test_of_two_drivers_that_begin_the_same_one_is_fenced(place, monkeypatch):
    """Both have seen that there is no journal yet."""
    monkeypatch.setattr("sdf.journal.journal.find_head", lambda storage: None)
    open_journal(place)
    with pytest.raises(JournalFencedError):
        open_journal(place)


def test_two_drivers_that_write_the_same_ahead_follow_the_same(place):
    """It is all the same whose it was."""
    one, two = open_journal(place), open_journal(place)
    assert one.write_ahead("pin-0", [1]) == two.write_ahead("pin-0", [1]) == two.write_ahead("pin-0", [2]) == [1]


def test_a_journal_of_before_blocks_named_their_writers_goes_on(place):
    """Its blocks are as they were, and those that follow are checked against them."""
    storage = storage_at(place, "test")
    state = {"sha256": sha256(b"left"), "size": 4}
    seed = {"config": {"fns": ["TailFn"]}, "inputs": ["a"], "kind": "seed", "prev": None, "seq": 0, "time": 7, "v": 1}
    block = {
        "checkpoint": state, "config": seed["config"], "inputs": [{"id": "a", "start": 0, "stop": 5}],
        "kind": "commit", "output": {"start": 0, "stop": 5}, "prev": sha256(canonical(seed)), "prev_checkpoint": None,
        "seq": 1, "status": "running", "time": 8, "v": 1, "watermark": None,
    }  # fmt: skip
    entry = {"content": "planned", "prev": sha256(canonical(block)), "seq": 2, "v": 1}
    files = {
        block_name(0): canonical(seed),
        block_name(1): canonical(block),
        f"blobs/{state['sha256']}": b"left",
        "HEAD": canonical({"hash": sha256(canonical(block)), "seq": 1}),
        f"ahead/{2:020d}.pin-0.json": canonical({**entry, "sha256": sha256(canonical(entry))}),
    }
    for name, content in files.items():
        storage.replace(name, content)
    journal = open_journal(place)
    assert (journal.head.data, journal.ahead("pin-0"), journal.get(state)) == (block, "planned", b"left")
    commit(journal, b"new")
    last = list(verify(storage))[-1].data
    assert (last["inputs"], last["v"], len(last["writer"])) == ([{"id": "a", "start": 5, "stop": 6}], VERSION, 32)


def test_the_command_line_takes_what_a_stream_takes(place, capsys):
    """A path or a URL; errors name the command with it."""
    assert main(["show", place]) == 1
    assert capsys.readouterr().out == "there is no journal here\n"
    journal, storage = open_journal(place), storage_at(place, "test")
    commit(journal, b'{"committed":[],"gone":[],"next":0,"v":4}\n')
    journal.put(b"orphan")
    storage.replace("blobs/half.tmp-1", b"")
    storage.replace("trial.tmp-2", b"")
    assert main(["show", place]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1  100  a [0, 1)  output [0, 1)  watermark None  running",
        "2 blocks, the chain is whole",
    ]
    assert main(["clean", place]) == 0
    assert "removed 3 files" in capsys.readouterr().out
    assert (storage.half_written("blobs"), storage.half_written("")) == ([], [])
    storage.remove(f"blobs/{journal.head.data['checkpoint'][0]['sha256']}")
    assert main(["verify", place]) == 1
    assert f"`python -m sdf.journal verify {place}`" in capsys.readouterr().err


def test_the_command_line_refuses_what_a_stream_refuses(capsys):
    """Without a traceback."""
    with pytest.raises(SystemExit):
        main(["show", "hdfs:/state"])
    assert "the checkpoint cannot be there (got 'hdfs:/state')" in capsys.readouterr().err


def test_the_command_line_says_that_a_store_is_out_of_reach(s3_server, monkeypatch, capsys):
    """Without a traceback."""
    fsspec = pytest.importorskip("fsspec")
    away = {**s3_server.config, "endpoint_url": "http://127.0.0.1:1", "config_kwargs": {"retries": {"max_attempts": 0}}}
    monkeypatch.setitem(fsspec.config.conf, "s3", away)
    assert main(["show", "s3://bucket/state"]) == 1
    assert "EndpointConnectionError" in capsys.readouterr().err

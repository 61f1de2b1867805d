"""Two drivers that create the same file at the same moment, a hundred times: exactly one of them does."""

import pytest
from support.hadoop import jars_of_s3a
from support.racing import RACES, race
from support.volume import mounted

CLUSTERS = pytest.mark.clusters


@pytest.fixture(params=["disk", "volume", "S3", *(pytest.param(one, marks=CLUSTERS) for one in ("HDFS", "WebHDFS"))])
def place(request, tmp_path):
    if request.param == "disk":
        yield str(tmp_path / "state")
    elif request.param == "volume":
        with mounted(tmp_path) as volume:
            yield f"{volume}/state"
    elif request.param == "S3":
        yield f"s3://{request.getfixturevalue('s3_server').bucket()}/state"
    else:
        hadoop = request.getfixturevalue("hadoop")
        yield f"{hadoop.url if request.param == 'HDFS' else hadoop.web}/races-{request.param}"


def test_of_two_drivers_one_creates_a_file(place, capsys):
    """Each wins some, or they did not meet."""
    wins = race(place)
    with capsys.disabled():
        print(f"\n{place}: {wins}")
    assert sum(wins) == RACES
    assert all(wins)


@pytest.mark.clusters
def test_of_two_drivers_one_creates_a_file_by_s3a(s3_server, capsys):
    """Each has a JVM of its own."""
    jars_of_s3a()  # or it is skipped
    wins = race(f"s3a://{s3_server.bucket()}/state", s3_server.config)
    with capsys.disabled():
        print(f"\ns3a: {wins}")
    assert sum(wins) == RACES
    assert all(wins)

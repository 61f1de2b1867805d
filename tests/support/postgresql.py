"""A PostgreSQL server that tests share."""

import os
import shutil
import subprocess
from tempfile import TemporaryDirectory

import pytest

NOBODY = 65534


def run_unprivileged(*command):
    """Run a command of PostgreSQL, which refuses to be root."""
    switch = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    subprocess.run([*switch, *command], check=True, cwd="/", stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgresql():
    """Start a PostgreSQL server whose language does not order texts by their bytes."""
    if not all(map(shutil.which, ("initdb", "pg_ctl", "postgres"))):
        pytest.skip("PostgreSQL is not installed: there is no initdb, pg_ctl or postgres on the PATH")
    pytest.importorskip("psycopg")
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv to run it as someone else")
    with TemporaryDirectory(prefix="sdf-") as home:  # not pytest's own, whose names are too long for a socket
        if os.geteuid() == 0:
            shutil.chown(home, NOBODY, NOBODY)
        run_unprivileged("initdb", "-D", f"{home}/data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync",
                         "--locale=C", "--locale-provider=icu", "--icu-locale=en")  # fmt: skip
        run_unprivileged("pg_ctl", "-D", f"{home}/data", "-w", "-l", f"{home}/data/log", "start",
                         "-o", f"-k {home} -c listen_addresses='' -c fsync=off")  # fmt: skip
        try:
            yield f"postgresql+psycopg://tester:secret@/postgres?host={home}"
        finally:
            run_unprivileged("pg_ctl", "-D", f"{home}/data", "-m", "immediate", "stop")

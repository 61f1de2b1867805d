"""Test what is promised at both ends: the oldest Python with the oldest libraries, the newest with the newest.

Between both ends, the stress test of claims() alone: it depends on how Python iterates and switches threads.

make test-versions runs it. Each version has an environment of its own under build/versions, made anew, with nothing in
it but pytest and what sdf itself needs: the tests of connectors need more, and are left to make test.
"""

import configparser
import glob
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEWEST_PYTHON = "3.13"
BETWEEN = ("3.11", "3.12")
PARTS = {
    "core": ["-m", "not spark and not soak", "--ignore", "tests/io", "--ignore", "tests/spark", "tests"],
    "Spark": ["-m", "not soak", "tests/spark/test_run_sdf.py", "tests/spark/live/test_live.py"],
}
STRESS = {"claims()": ["tests/execution/test_claims_stress.py"]}  # at both ends it is part of the core


def promised():
    """Return the oldest Python, and the libraries with their bounds, as setup.cfg has them."""
    options = configparser.ConfigParser()
    options.read(ROOT / "setup.cfg")
    python = options["options"]["python_requires"].removeprefix(">=")
    return python, options["options"]["install_requires"].split()


def oldest_of(requirement):
    """Return the requirement of the oldest version that one allows: attrs==22.2 for attrs>=22.2."""
    name, version = re.fullmatch(r"([\w.-]+)>=([\d.]+)(?:,.*)?", requirement).groups()
    return f"{name}=={version}"


def interpreter(version):
    """Return the path of a Python of a version such as "3.10"; None if there is none, or a shim of pyenv alone."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    kept = glob.glob(f"{pyenv}/versions/{version}.*/bin/python")
    for path in (shutil.which(f"python{version}"), *kept, sys.executable):
        if path is not None:
            asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
                return path
    return None


def environment(name, python, requirements):
    """Make a virtual environment with sdf, pytest and these requirements; return its Python."""
    folder = ROOT / "build" / "versions" / name
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--use-pep517"]
    subprocess.run(
        [folder / "bin" / "python", *install, "--editable", ".", "pytest", *requirements], cwd=ROOT, check=True
    )
    return folder / "bin" / "python"


def versions_in(python, requirements):
    """Return what is installed there, in words."""
    code = (
        "import platform, sys; from importlib.metadata import version; "
        "print(f'Python {platform.python_version()}', *(f'{name} {version(name)}' for name in sys.argv[1:]), sep=', ')"
    )
    names = [re.match(r"[\w.-]+", requirement).group() for requirement in requirements]
    return subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=True).stdout.strip()


def tested(python, arguments):
    """Run pytest, show what it says, and return whether all passed, and its last line."""
    own = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    last = ""
    with subprocess.Popen(command, cwd=ROOT, env=own, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return run.returncode == 0, last


def main():
    oldest_python, requirements = promised()
    versions = {
        "oldest": (oldest_python, [oldest_of(requirement) for requirement in requirements], PARTS),
        **{f"between-{version}": (version, requirements, STRESS) for version in BETWEEN},
        "newest": (NEWEST_PYTHON, requirements, PARTS),
    }
    said, passed, ran = [], True, False
    for name, (version, pins, parts) in versions.items():
        began = time.monotonic()
        python = interpreter(version)
        if python is None:
            said.append(f"{name}: NOT TESTED, there is no Python {version} on the PATH, nor one of pyenv.")
            continue
        print(f"\n=== {name}: Python {version}, {', '.join(pins)}", flush=True)
        own = environment(name, python, pins)
        said.append(f"{name}: {versions_in(own, pins)}; made in {time.monotonic() - began:.0f} s")
        for part, arguments in parts.items():
            right, last = tested(own, arguments)
            said.append(f"  {part}: {last}")
            passed, ran = passed and right, True
    print("\n" + "\n".join(said))
    return 0 if passed and ran else 1


if __name__ == "__main__":
    sys.exit(main())

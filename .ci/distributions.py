"""Builds the wheel and the source distribution, and checks what is in them: python .ci/distributions.py [DIRECTORY]

The wheel must hold each file of the package that git knows, the licence files and the metadata, and nothing else. A
wheel that is built from the source distribution must hold the same.
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE", "top_level.txt"}
ALSO_IN_SOURCE = {"CHANGELOG.md", "LICENSE", "NOTICE", "README.md", "pyproject.toml", "setup.cfg"}


def run(*command, **options):
    return subprocess.run([sys.executable, "-m", *map(str, command)], check=True, **options)


def package():
    """Return the files of the package that git knows, without caches and leftovers."""
    listed = subprocess.run(["git", "ls-files", "sdf"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return set(listed.stdout.split())


def in_wheel(path):
    """Return the files of the package in a wheel, and those of its metadata."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    metadata = {name.partition("/")[2] for name in names if name.partition("/")[0].endswith(".dist-info")}
    return {name for name in names if not name.partition("/")[0].endswith(".dist-info")}, metadata


def in_source(path):
    with tarfile.open(path) as source:
        return {member.name.partition("/")[2] for member in source if member.isfile()}


def check(what, found, wanted):
    """End unless two sets of names are equal."""
    if found != wanted:
        sys.exit(f"{what}: too many are {sorted(found - wanted)}, missing are {sorted(wanted - found)}")


def main(target):
    run("build", "--outdir", target, ROOT)
    (wheel,), (source,) = target.glob("*.whl"), target.glob("*.tar.gz")
    run("twine", "check", "--strict", wheel, source)
    check(f"{wheel.name}: modules", in_wheel(wheel)[0], package())
    check(f"{wheel.name}: metadata", in_wheel(wheel)[1], METADATA)
    found = in_source(source)
    missing = (package() | ALSO_IN_SOURCE) - found
    if missing:
        sys.exit(f"{source.name}: missing are {sorted(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source)
        (again,) = Path(folder).glob("*.whl")
        check(f"the wheel from {source.name}", in_wheel(again)[0], package())
    print(f"{wheel.name}: {len(package())} files; {source.name}: {len(found)}. Both hold what they must.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute())

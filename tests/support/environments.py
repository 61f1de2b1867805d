"""Virtual environments for workers: with what Spark's own need, and nothing else; nothing is downloaded for them."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from support.warm import WARM_FOLDER

_SPARKS_OWN = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "dateutil", "pytz", "tzdata", "six")


def environment(folder, files=None):
    """Make an environment and return its Python. It has neither sdf nor attrs.

    Args:
        folder: where to make it.
        files: texts by path, written among its packages.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(Path(folder).glob("lib/python*/site-packages"))
    for name in _SPARKS_OWN:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        origin = Path(spec.origin)
        own = origin if origin.name != "__init__.py" else origin.parent
        for each in {own, *own.parent.glob(f"{name}.libs"), *own.parent.glob(f"{name}-*.dist-info")}:
            (packages / each.name).symlink_to(each)
    installed_files = (Path(WARM_FOLDER) / "sitecustomize.py").read_text()
    for path, text in {"sitecustomize.py": installed_files, **(files or {})}.items():
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_text(text)
    return str(Path(folder) / "bin" / "python")


def packed(folder, *names):
    """Return an archive of an environment with some libraries in pure Python, and without pyspark, to unpack anywhere.

    Its Python is a link to that of this machine, as with venv-pack.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(Path(folder).glob("lib/python*/site-packages"))
    for name in names:
        origin = Path(importlib.util.find_spec(name).origin).parent
        shutil.copytree(origin, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    return shutil.make_archive(str(folder), "gztar", folder)

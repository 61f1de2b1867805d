"""What is installed under which name: no page and no message names a package that is somebody else's."""

import ast
import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sdf.errors import REQUIREMENTS, RUN_DOCTOR, MissingExtraError
from sdf.extras import need

ROOT = Path(__file__).parent.parent
TEXTS = sorted(
    path
    for pattern in ("*.md", "Makefile", "setup.cfg", "docs/*.md", "docs/*.py", "sdf/**/*.py", "examples/*.py",
                    "examples/*.ipynb", "benchmarks/*.py", "benchmarks/*.txt", ".ci/*")
    for path in ROOT.glob(pattern)
    if path.is_file()
)  # fmt: skip
FOR_DEVELOPERS = {"docs", "test", "versions"}  # extras

# An install of sdf by a name that pip looks up, whatever options and other packages stand before it. Our own name is
# not published yet; a path to a checkout or a wheel is fine.
BY_NAME = re.compile(
    r"\binstall (?:-\S+ |[\w.-]*[\[<>=]\S* )*(?:pyspark[-_])?sdf(?![\w/.-])|\bsdf\[[a-z]", re.IGNORECASE
)


def installs_by_name(text):
    """Give the installs of sdf by its name in a text; quotes and line ends in between do not hide one."""
    return BY_NAME.findall(re.sub(r"(?:\\n|[\s\"'`\\])+", " ", text))


@pytest.fixture(scope="module")
def setup_cfg():
    """Return setup.cfg as setuptools reads it."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def label(path):
    return str(path.relative_to(ROOT))


def test_the_distribution_has_a_name_of_its_own(setup_cfg):
    """On PyPI sdf is another project."""
    assert setup_cfg["metadata"]["name"] == "pyspark-sdf"


def test_a_package_of_somebody_else_that_was_installed_over_sdf_is_named(tmp_path):
    """Only ``__init__.py`` is in both: where theirs came later, ours is gone, and any other module says so."""
    shutil.copytree(ROOT / "sdf", tmp_path / "sdf")
    (tmp_path / "sdf/__init__.py").write_text('"""SDF: reads Scientific Data Format."""\n')
    for code in ("import sdf.io", "from sdf.spark import ship", "import runpy; runpy.run_module('sdf')"):
        run = [sys.executable, "-c", code]
        failed = subprocess.run(run, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
        assert f"ImportError: {tmp_path}/sdf/__init__.py belongs to another distribution" in failed.stderr


def test_nobody_is_told_to_install_sdf_by_name():
    """From a checkout or a wheel, until it is published; messages of several strings are looked at as one."""
    assert len(TEXTS) > 300
    assert {label(path): found for path in TEXTS if (found := installs_by_name(path.read_text()))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install sdf",
        "python -m pip install --upgrade sdf  # and more",
        "`pip install 'sdf[files]'`",
        '"Install it with pip install "\n    "\'sdf[{extra}]\' or not"',
        "pip install\nsdf",
        "pip install 'fastavro>=1.9' sdf",
        "pip install pyspark-sdf",
        "install sdf[gzip] to split it",
    ],
)  # fmt: skip
def test_an_install_by_name_is_seen(text):
    """The test above is one that can fail."""
    assert installs_by_name(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        "pip install '.[files]'",
        "pip install './pyspark_sdf-0.1.0-py3-none-any.whl[files]'",
        "pip install dist/pyspark_sdf-0.1.0-py3-none-any.whl",
        "pip install 'fastavro>=1.9'",
        "in a checkout of sdf: `pip install .`",
    ],
)
def test_an_install_of_what_is_ours_is_fine(text):
    """A checkout, a wheel, or a library under its own name."""
    assert installs_by_name(text) == []


def test_messages_install_what_the_extras_do(setup_cfg):
    """The same libraries with the same bounds."""
    extras = {
        line
        for extra, lines in setup_cfg["options.extras_require"].items()
        if extra not in FOR_DEVELOPERS
        for line in lines.split()
    }
    assert sorted(REQUIREMENTS.values()) == sorted(extras)


def libraries_told():
    """Give the libraries that the code asks `need`, `Library` or `how_to_install` for, as it names them."""
    asks = [
        text
        for path in (ROOT / "sdf").rglob("*.py")
        if re.search(r"\b(Library|need|how_to_install)\(", text := path.read_text())
    ]
    for text in asks:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Library", "need", "how_to_install"):
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    yield name.value.split(".")[0]


def test_every_library_that_is_asked_for_has_a_requirement_and_no_other():
    """Else the message would fail where the library is missing."""
    assert set(libraries_told()) == set(REQUIREMENTS)


@pytest.mark.parametrize("library", REQUIREMENTS)
def test_a_missing_library_is_named_with_its_bound(monkeypatch, library):
    """Not an extra of sdf, which pip would look for in another project."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError) as caught:
        need(library, "ReadFn")
    assert str(caught.value) == (
        f"ReadFn needs {library}, which is not installed here. Install it with: pip install '{REQUIREMENTS[library]}' "
        f"(on the driver and on every executor). {RUN_DOCTOR}"
    )

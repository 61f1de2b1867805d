"""One door to Spark: no other module names what is private in PySpark or Py4J, or what not every version has."""

import ast
from pathlib import Path

import pytest

import sdf

ROOT = Path(sdf.__file__).parent
DOOR = ROOT / "spark" / "door"
TREES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py")) if DOOR not in path.parents}

# What all versions of Spark have that sdf promises.
PUBLIC = {"pyspark", "pyspark.sql", "pyspark.sql.types"}
# Private names that sdf has used, or may want. Others are found because nothing in sdf defines them.
PRIVATE = {"_gateway", "_jbroadcast", "_jconf", "_jdf", "_jrdd", "_jsc", "_jsparkSession", "_jvm"}


def is_spark(name):
    return name.split(".")[0] in ("pyspark", "py4j")


def own_names():
    """Return the names that sdf itself defines: functions, classes, fields and attributes."""
    names = set()
    for node in (node for tree in TREES.values() for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def at_run_time(tree):
    """Yield the nodes of a syntax tree, without what only the type checker sees."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            waiting += ast.iter_child_nodes(node)


def private_names(tree, own):
    """Return what belongs behind the door: imports from Spark that are not public, and private names."""
    found = []
    for node in at_run_time(tree):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names if is_spark(one.name) and one.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and is_spark(node.module):
            found += [node.module] if node.module not in PUBLIC else []
            found += [one.name for one in node.names if one.name.startswith("_") or one.name == "cloudpickle"]
        elif isinstance(node, ast.FunctionDef) and node.name in PRIVATE:
            found.append(node.name)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            found += [node.attr] if node.attr in PRIVATE or node.attr not in own else []
    return found


def test_no_module_but_the_door_names_what_is_private_in_spark():
    """So a change of Spark is a change of one package."""
    own = own_names()
    found = {
        str(path.relative_to(ROOT)): private_names(tree, own) for path, tree in TREES.items() if "spark" in path.parts
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("sc._jsc.sc()", "_jsc"),
        ("sc._gateway", "_gateway"),
        ("rdd._unheard_of", "_unheard_of"),
        ("class Mine(RDD):\n    def _jrdd(self): ...", "_jrdd"),
        ("import py4j.protocol", "py4j.protocol"),
        ("def late():\n    from pyspark.sql.connect.client import SparkConnectClient", "pyspark.sql.connect.client"),
        ("from pyspark.sql.types import _make_type_verifier", "_make_type_verifier"),
        ("from pyspark import cloudpickle", "cloudpickle"),
    ],
)
def test_a_planted_name_is_found(planted, name):
    """Of each kind."""
    assert private_names(ast.parse(planted), {"_mine"}) == [name]
    assert private_names(ast.parse("self._mine; from pyspark import RDD"), {"_mine"}) == []

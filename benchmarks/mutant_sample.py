"""A fixed sample of mutants of sdf's core: where cosmic-ray's operators would change it, drawn by a hash.

The hash is of the file's name, the line's text and the kind of operator, so the sample stays when other lines change.
No mutant is made where it would tell nothing: in annotations, assertions and messages. Nor is one that every test would
notice, such as a decorator left out, or one that changes nothing, such as `==` for `is`.
"""

import ast
import hashlib
from collections import Counter, defaultdict

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

SEED, SIZE = 45, 420
PACKAGES = "model", "scheduling", "execution", "lanes", "journal", "saving"
ARITHMETIC, BITS, IDENTITY = {"Add", "Sub", "Mul", "FloorDiv"}, {"BitAnd", "BitOr", "BitXor"}, {"Is", "IsNot"}
NOT_USED = "NoOp", "RemoveDecorator", "VariableReplacer", "VariableInserter"


def is_sensible(operator):
    """Return whether an operator makes mutants that are neither the same program nor sure to fail at once."""
    kind, *ends = operator.split("_")
    if kind == "ReplaceBinaryOperator":
        return ends[1] in (BITS if ends[0] in BITS else ARITHMETIC)
    if kind == "ReplaceComparisonOperator":
        return (ends[0] in IDENTITY) == (ends[1] in IDENTITY)
    if kind == "ReplaceUnaryOperator":
        return ends[0] == "Delete"
    return kind not in NOT_USED


NAMES = {name.partition("/")[2]: name for name in sorted(operator_names())}
OPERATORS = {short: get_operator(name)() for short, name in NAMES.items() if is_sensible(short)}


def tells_nothing(node):
    """Return whether mutants in a node are not made: it only says something, or asserts."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "log"
    return isinstance(node, (ast.Raise, ast.Assert)) or getattr(node, "name", "") == "__repr__"


def left_out(code):
    """Return where no mutants are made, as begins and ends."""
    nodes = [*ast.walk(ast.parse(code))]
    some = [node for node in nodes if tells_nothing(node)]
    for name in ("annotation", "returns"):
        some += [found for node in nodes if (found := getattr(node, name, None)) is not None]
    return [((one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)) for one in some]


def places(code):
    """Return all that can be changed: by kind of operator and position, each operator with its occurrence."""
    nodes, without, found = [*ast_nodes(get_ast(code))], left_out(code), defaultdict(list)
    for name, operator in OPERATORS.items():
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(starts):
            if not any(begin <= start < end for begin, end in without):
                found[name.partition("_")[0], start].append((name, occurrence))
    return found


def candidates(sdf, package):
    """Yield all that can be changed in a package: its rank, name, file and line, and how."""
    for path in sorted((sdf / package).rglob("*.py")):
        code, file, seen = path.read_text(), path.relative_to(sdf).as_posix(), Counter()
        lines = code.splitlines()
        for (kind, (line, column)), ways in sorted(places(code).items()):
            text = lines[line - 1].strip()
            if lines[line - 1][column : column + 2] in ("*,", "/,"):  # of parameters, no operator
                continue
            seen[kind, text] += 1
            name = f"{file} | {text} | {kind} {seen[kind, text]}"
            rank = hashlib.sha256(f"{SEED} {name}".encode()).hexdigest()
            yield rank, name, file, line, ways[int(rank[:8], 16) % len(ways)]


def sample(sdf):
    """Return the mutants: by name, the file, the line, and what `mutated` takes. The first ones are a sample, too."""
    found = {package: sorted(candidates(sdf, package)) for package in PACKAGES}
    total = sum(map(len, found.values()))
    chosen = [one for ranked in found.values() for one in ranked[: round(SIZE * len(ranked) / total)]]
    return {name: about for _, name, *about in sorted(chosen)}


def mutated(code, way):
    """Return the code of a mutant."""
    operator, occurrence = way
    return mutate_code(code, OPERATORS[operator], occurrence)

"""Writes options.md: the options of functions, runners, sinks and connectors, from their signatures and docstrings.

make docs
"""

import inspect
import re
from pathlib import Path

from pyspark import StorageLevel

import sdf.io
import sdf.sinks
from sdf import (
    DoFn,
    LiveRunner,
    Pace,
    Quarantine,
    RateLimit,
    StagedRunner,
    Until,
    group_by_key,
    run_direct,
    run_sdf,
    save_sdf,
    stream_sdf,
)
from sdf.testing import check_dofn

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Options

What functions, runners and objects of options take, then sinks, then connectors, with the defaults. The
{doc}`reference <api>` says what they return and which errors they raise. `make docs` makes this page.
"""
FUNCTIONS = [run_sdf, save_sdf, stream_sdf, run_direct, check_dofn, group_by_key]
OBJECTS = [StagedRunner, LiveRunner, Quarantine, Pace, Until, RateLimit]
NAMED = {**vars(sdf.sinks), **vars(sdf.io)}  # the classes that docstrings refer to
ARGUMENT = re.compile(r"^ {4}(\w[\w, ]*): (.*(?:\n {5,}.*)*)", re.MULTILINE)
ELSEWHERE = re.compile(r"(?:as for|see) `(\w+)`\.")  # where an option is described
MIB = 1 << 20


def connectors():
    """Return the connectors in the order of their names, without the bases of readers, which end in Fn."""
    kinds = [getattr(sdf.io, name) for name in sdf.io.__all__ if not name.endswith("Fn")]
    return [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, DoFn)]


def sinks():
    """Return the sinks in the order of their names."""
    kinds = [getattr(sdf.sinks, name) for name in sdf.sinks.__all__]
    return [kind for kind in kinds if issubclass(kind, sdf.sinks.Sink) and kind is not sdf.sinks.Sink]


def sections():
    """Return what the page tells of, by the titles of its sections."""
    return {
        "Functions": FUNCTIONS,
        "Runners, and options that are objects": OBJECTS,
        "Sinks": sinks(),
        "Connectors": connectors(),
    }


def described(kind):
    """Return what the docstring of a function, or of a class itself, says about options, by their names."""
    _, _, rest = inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")
    arguments = ARGUMENT.findall(re.split(r"^(?=\S)", rest, maxsplit=1, flags=re.MULTILINE)[0])
    return {name: " ".join(text.split()) for names, text in arguments for name in names.split(", ")}


def meaning(kind, name):
    """Return what an option means, from the docstring or that of a class above; None if none says so."""
    places = kind.__mro__ if inspect.isclass(kind) else (kind,)
    text = next((said[name] for said in map(described, places) if name in said), None)
    elsewhere = text and ELSEWHERE.fullmatch(text)
    return meaning(NAMED[elsewhere[1]], name) if elsewhere else text


def options(kind):
    """Return (name, default) of each option; of a connector its own before those of the classes above it."""
    if kind not in connectors():
        return [(each.name, each.default) for each in inspect.signature(kind).parameters.values()]
    found = {}
    for each in [*kind.__mro__[:-1], sdf.io.MatchFiles]:  # WatchFiles passes on the options of MatchFiles
        if "__init__" in vars(each):
            for parameter in inspect.signature(each).parameters.values():
                found.setdefault(parameter.name, parameter.default)
    return [(name, default) for name, default in found.items() if name in kind.option_names()]


def shown(default):
    """Return a default as the table shows it."""
    if default is inspect.Parameter.empty:
        return "required"
    if inspect.isfunction(default):
        return f"`{default.__module__.removesuffix('.__init__')}.{default.__qualname__}`"
    if isinstance(default, StorageLevel):
        return next(f"`StorageLevel.{name}`" for name, level in vars(StorageLevel).items() if level == default)
    if isinstance(default, int) and default >= MIB and default % MIB == 0:
        return f"{default // MIB} MiB"
    return f"`{default!r}`"


def markdown(text):
    """Return text of a docstring for a cell of a table."""
    return (text[0].upper() + text[1:]).replace("``", "`").replace("|", "\\|")


def page():
    """Return the page."""
    parts = [HEAD]
    for title, kinds in sections().items():
        parts += [f"## {title}\n", *map(part, kinds)]
    return "\n".join(parts)


def part(kind):
    """Return the part of the page about a function or a class."""
    rows = [f"| `{name}` | {shown(default)} | {markdown(meaning(kind, name))} |" for name, default in options(kind)]
    summary = markdown(inspect.cleandoc(kind.__doc__).partition("\n\n")[0])
    table = "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
    return f"### {kind.__name__}\n\n{summary}\n\n{table}\n"


if __name__ == "__main__":
    PAGE.write_text(page())

"""Writes options.md: the options of each connector, from the signatures and docstrings of sdf.io.

make docs
"""

import inspect
import re
from pathlib import Path

import sdf.io
from sdf import DoFn

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Options of the connectors

What each connector of `sdf.io` takes, with its defaults. {doc}`connectors` says what each is for, and the
{doc}`reference <api>` which errors each raises. This page is made from the docstrings, by `make docs`.

"""
ARGUMENT = re.compile(r"^ {4}(\w[\w, ]*): (.*(?:\n {5,}.*)*)", re.MULTILINE)
ELSEWHERE = re.compile(r"(?:as for|see) `(\w+)`\.")  # where an option is described
MIB = 1 << 20


def connectors():
    """Return the connectors in the order of their names, without the bases of readers, which end in Fn."""
    kinds = [getattr(sdf.io, name) for name in sdf.io.__all__ if not name.endswith("Fn")]
    return [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, DoFn)]


def described(kind):
    """Return what the docstring of a class itself says about options, by their names."""
    _, _, rest = inspect.cleandoc(vars(kind).get("__doc__") or "").partition("\nArgs:\n")
    arguments = ARGUMENT.findall(re.split(r"^(?=\S)", rest, maxsplit=1, flags=re.MULTILINE)[0])
    return {name: " ".join(text.split()) for names, text in arguments for name in names.split(", ")}


def meaning(kind, name):
    """Return what an option of a class means, from its docstring or that of a class above; None if none says so."""
    text = next((said[name] for said in map(described, kind.__mro__) if name in said), None)
    elsewhere = text and ELSEWHERE.fullmatch(text)
    return meaning(getattr(sdf.io, elsewhere[1]), name) if elsewhere else text


def options(kind):
    """Return (name, default) of each option, its own before those of the classes above it."""
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
    if isinstance(default, int) and default >= MIB and default % MIB == 0:
        return f"{default // MIB} MiB"
    return f"`{default!r}`"


def markdown(text):
    """Return text of a docstring for a cell of a table."""
    return (text[0].upper() + text[1:]).replace("``", "`").replace("|", "\\|")


def page():
    """Return the page."""
    parts = []
    for kind in connectors():
        rows = [f"| `{name}` | {shown(default)} | {markdown(meaning(kind, name))} |" for name, default in options(kind)]
        summary = markdown(inspect.cleandoc(kind.__doc__).partition("\n\n")[0])
        table = "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
        parts.append(f"## {kind.__name__}\n\n{summary}\n\n{table}\n")
    return HEAD + "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())

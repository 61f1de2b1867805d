"""Makes Avro files of real data that every machine has: the source lines of Python's standard library."""

import os
import sysconfig
from pathlib import Path

import fastavro

SCHEMA = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": n, "type": t} for n, t in (("file", "string"), ("number", "int"), ("text", "string"))],
}


def write_source_lines(folder, times=1):
    """Write an Avro file for each module that is a single file, and one for all of the library; return their paths.

    The latter holds each line so many times.
    """
    library = Path(sysconfig.get_path("stdlib"))
    modules = sorted(library.glob("*.py"))
    everything = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)
    sources = {f"{module.stem}.avro": [module] for module in modules} | {"everything.avro": everything * times}
    return [write(os.path.join(folder, name), modules) for name, modules in sources.items()]


def write(path, modules):
    with open(path, "wb") as file:
        fastavro.writer(file, SCHEMA, lines(modules), codec="deflate")
    return path


def lines(modules):
    for module in modules:
        for number, text in enumerate(module.read_text("utf-8", "replace").splitlines(), start=1):
            yield {"file": module.name, "number": number, "text": text}

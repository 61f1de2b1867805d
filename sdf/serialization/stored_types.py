"""Stable names for the types of sdf that journals hold: a checkpoint still resumes after a module has moved.

A journal names a type of sdf by a tag, such as ``sdf:FileRange``, and any other type by its module and name.
Checkpoints of version 2 named a module for every type; `module_of` maps moved modules of sdf to their new place.
"""

from __future__ import annotations

__all__ = ["located", "module_of", "stored_name", "tag"]

_TYPES = {
    "sdf.execution.bulk.table": ("Row", "Rows", "Table"),
    "sdf.model.restrictions": ("UNBOUNDED", "ByteKeyRange", "OffsetRange"),
    "sdf.beam.trackers": ("BeamRestriction",),
    "sdf.io.files.file_fn": ("FileBlock", "FileRange"),
    "sdf.io.files.pinned": ("FileInfo", "Watch"),
    "sdf.io.follow.known_files": ("KnownFile",),
    "sdf.io.follow.polling": ("Poll", "Polled", "Polls"),
    "sdf.io.follow.tail_parts": ("Piece", "Tail"),
    "sdf.io.follow.watch": ("Scan", "Scans"),
    "sdf.io.kafka.tail_parts": ("KafkaTail", "Mark", "Messages"),
    "sdf.io.kafka.topic": ("KafkaRange", "Offsets"),
    "sdf.io.kafka.values": ("KafkaRecord", "TopicPartition"),
    "sdf.io.pages": ("PageRange",),
    "sdf.io.tables.keys": ("KeyRange",),
    "sdf.io.tables.table": ("TableQuery",),
    "sdf.io.text.json_array": ("JsonRange",),
    "sdf.io.text.text_fn": ("BadRecord", "Cells"),
    "sdf.io.warc.records": ("WarcRecord",),
}
_BEFORE = {
    "sdf.restrictions": "sdf.model.restrictions",
    "sdf.beamtrackers": "sdf.beam.trackers",
    "sdf.io.files": "sdf.io.files.file_fn",
    "sdf.io.pinned": "sdf.io.files.pinned",
    "sdf.io.known": "sdf.io.follow.known_files",
    "sdf.io.tailparts": "sdf.io.follow.tail_parts",
    "sdf.io.watch": "sdf.io.follow.watch",
    "sdf.io.kafkaclient": "sdf.io.kafka.values",
    "sdf.io.kafka": "sdf.io.kafka.topic",
    "sdf.io.tablekeys": "sdf.io.tables.keys",
    "sdf.io.table": "sdf.io.tables.table",
    "sdf.io.text": "sdf.io.text.text_fn",
}
_TAGS = {(module, name): f"sdf:{name}" for module, names in _TYPES.items() for name in names}
_PLACES = {tag: place for place, tag in _TAGS.items()}


def tag(module: str, name: str) -> str | None:
    """Return the tag of the object with this module and name, None if it has none."""
    return _TAGS.get((module, name))


def stored_name(module: str, name: str) -> str:
    """Return the name of an object in a journal: its tag if it has one, else ``module:name``."""
    return tag(module, name) or f"{module}:{name}"


def located(stored: str) -> tuple[str, str]:
    """Return the module and the name behind a stored name, also from a journal of version 2."""
    if stored in _PLACES:
        return _PLACES[stored]
    module, _, name = stored.partition(":")
    return module_of(module), name


def module_of(module: str) -> str:
    """Return the module that now holds the stored types of ``module``."""
    return _BEFORE.get(module, module)

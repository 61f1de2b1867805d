"""Types of sdf are stored under tags, which no move of a module changes."""

import importlib
import pkgutil

import attrs
import pytest

import sdf.io
from sdf.serialization.stored_types import _BEFORE, _TYPES, located, stored_name

STORED = [(module, name) for module, names in _TYPES.items() for name in names]
NEVER_STORED = {  # what lives for one attempt, or in a worker
    ("sdf.io.text.block_text", "Block"),
    ("sdf.io.text.csv_batches", "CsvColumns"),
    ("sdf.io.text.csv_batches", "Misfit"),
    ("sdf.io.objects.keys", "Page"),
    ("sdf.io.follow.file_states", "FileState"),
    ("sdf.io.follow.file_states", "Finder"),
    ("sdf.io.tables.table", "_Table"),
}
LATER = {  # modules that version 2 did not have
    "sdf.execution.bulk.table",
    "sdf.io.follow.polling",
    "sdf.io.kafka.tail_parts",
    "sdf.io.pages",
    "sdf.io.text.json_array",
    "sdf.io.warc.records",
}


@pytest.mark.parametrize(("module", "name"), STORED)
def test_a_tag_leads_to_its_type(module, name):
    """The table names what is there, where it is defined."""
    tag = stored_name(module, name)
    assert located(tag) == (module, name)
    assert getattr(importlib.import_module(module), name) is not None


def test_tags_are_unique():
    """Two types of one name would be one."""
    assert len({name for _, name in STORED}) == len(STORED)


def test_every_value_of_the_connectors_has_a_tag():
    """Or is named here as one that no journal ever holds."""
    values = set()
    for found in pkgutil.walk_packages(sdf.io.__path__, "sdf.io."):
        module = importlib.import_module(found.name)
        values |= {
            (kind.__module__, name) for name, kind in vars(module).items() if isinstance(kind, type) and attrs.has(kind)
        }
    assert {value for value in values if value[0].startswith("sdf.io.")} - set(STORED) == NEVER_STORED


@pytest.mark.parametrize("module", sorted(set(_TYPES) - LATER))
def test_every_module_of_stored_types_is_found_under_its_former_name(module):
    """All of them had another one in checkpoints of version 2."""
    assert module in _BEFORE.values()


def test_any_other_type_is_named_by_its_module():
    """As a class of the user's program."""
    assert stored_name("program", "Mine.Inner") == "program:Mine.Inner"
    assert located("program:Mine.Inner") == ("program", "Mine.Inner")

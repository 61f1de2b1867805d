"""What IcebergTable asks a catalog of pyiceberg: the table, and where its files are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from sdf.errors import InvalidTypeError, SinkError
from sdf.extras import Library, need
from sdf.sinks.sink import Token
from sdf.storage.objects import asking

__all__ = [
    "Catalog",
    "as_catalog",
    "catalog_of",
    "errors",
    "location_of",
    "new_location",
    "schemas",
    "table_of",
    "told_catalog",
]

errors = Library("pyiceberg.exceptions", "IcebergTable")
schemas = Library("pyiceberg.schema", "IcebergTable")
kinds = Library("pyiceberg.types", "IcebergTable")

Catalog = str | tuple[tuple[str, str], ...]  # a name, or properties, sorted

_TOLD = ("name", "type", "py-catalog-impl", "uri", "warehouse")  # properties without secrets
_DEFAULT = "default"  # as for pyiceberg


def as_catalog(value: Any) -> Catalog:
    """Return a catalog as a value that can be hashed."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise InvalidTypeError(
            "IcebergTable catalog must be the name of a catalog that pyiceberg's configuration has, or a mapping of "
            "its properties, names to strings, such as {'type': 'rest', 'uri': 'https://host'}."
        )
    return tuple(sorted(value.items()))


def told_catalog(catalog: Catalog) -> Any:
    """Return what tells a catalog from others, as JSON data without secrets."""
    if isinstance(catalog, str):
        return catalog
    told = {key: value for key, value in catalog if key in _TOLD}
    if "uri" in told:
        uri = urlsplit(told["uri"])
        told["uri"] = f"{uri.scheme}://{uri.netloc.rpartition('@')[2]}{uri.path}"
    return told


def catalog_of(catalog: Catalog) -> Any:
    """Return a catalog of pyiceberg; a connection must not outlive a fork."""
    return _loaded(catalog, os.getpid())


@lru_cache(maxsize=64)
def _loaded(catalog: Catalog, process: int) -> Any:
    load = need("pyiceberg.catalog", "IcebergTable").load_catalog
    if isinstance(catalog, str):
        with asking(catalog):
            return load(catalog)
    properties = dict(catalog)
    name = properties.pop("name", _DEFAULT)
    with asking(name):
        return load(name, **properties)


def table_of(name: str, catalog: Catalog) -> Any:
    """Return a table as it is now, None if there is none."""
    with asking(name):
        try:
            return catalog_of(catalog).load_table(name)
        except errors.NoSuchTableError:
            return None


def new_location(name: str, catalog: Catalog) -> str:
    """Return where a catalog would put a table that is not there; some choose another place each time."""
    some = schemas.Schema(kinds.NestedField(1, "value", kinds.StringType()))
    try:
        with asking(name):
            return str(catalog_of(catalog).create_table_transaction(name, some).table_metadata.location)
    except OSError as error:
        if isinstance(error.__cause__, errors.NoSuchNamespaceError):
            raise SinkError(
                f"IcebergTable cannot make {name!r}: the catalog has no namespace {name.rpartition('.')[0]!r}. Make it "
                f"first, with create_namespace() of pyiceberg's catalog."
            ) from error
        raise


def location_of(name: str, catalog: Catalog, token: Token) -> str:
    """Return where a table is, or will be; the same for all of a run, though the table be made meanwhile."""
    return _location_of(name, catalog, token, os.getpid()).rstrip("/")


@lru_cache(maxsize=64)
def _location_of(name: str, catalog: Catalog, token: Token, process: int) -> str:
    table = table_of(name, catalog)
    return new_location(name, catalog) if table is None else str(table.location())

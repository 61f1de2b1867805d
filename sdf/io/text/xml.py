"""ReadXml: the elements of one name in XML files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice, repeat
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show
from sdf.io.compressed.compression import BLOCKS
from sdf.io.files.file_fn import FileRange
from sdf.io.files.signatures import signature
from sdf.io.text.block_text import BlockText
from sdf.io.text.delimited import Stream
from sdf.io.text.elements import ElementText, Tag, too_long
from sdf.io.text.text_fn import CELL_BYTES, Cells, Pieces, TextFn

__all__ = ["ReadXml"]

_NAME = re.compile(r"[^\W\d][\w.\-]*")
_UNREADABLE = (SyntaxError, ValueError, RecursionError, expat.ExpatError)  # a ParseError is a SyntaxError
_TOGETHER = 64  # records that one parser reads: to make one costs more than a short record
_HEAD_BYTES = 1 << 10
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!doctype\s+html|<html)[\s>]", re.IGNORECASE)
_ENCODING = re.compile(rb"""(?:\xef\xbb\xbf)?<\?xml\s[^>]*?\bencoding\s*=\s*["']([^"']*)""")
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")
_QUOTED = re.compile(rb""""[^"]*"|'[^']*'""")
_UNBOUND = expat.errors.codes[expat.errors.XML_ERROR_UNBOUND_PREFIX]
_NO_ENTITY = expat.errors.codes[expat.errors.XML_ERROR_UNDEFINED_ENTITY]


class ReadXml(TextFn):
    """Reads XML elements. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell of the file.

    A record is an element, such as ``<page id="1">...</page>`` or ``<row/>``, wherever it is in the file. It begins at
    a start tag. Since a part that starts in the middle of a file does not see what is around that, these rules hold:

    - An element that holds another one of its name is a bad record; the inner one is a record.
    - A comment, a CDATA section, a processing instruction or a DOCTYPE must not hold a start tag of the name, in a
      record or outside: that is an error. It may hold an end tag.
    - The entities, and default values of attributes, that a DOCTYPE defines are unknown. So are namespaces that are
      declared around a record.

    Nothing else checks the rest of the file. The report names a file that gave no record, such as one without the tag.

    Args:
        tag: the name of the elements, as the files have it, with its prefix.
        parse: a function that turns the bytes of a record into a value, or raises; ``xmltodict.parse``, and ``bytes``
            for the record as it is, will do. It must be picklable. None: a record is an ``Element`` of xml.etree.
        namespaces: prefixes and URIs that are declared around the records, such as ``{"dc": "http://..."}``; "" for the
            default. Records are given with these declarations. Without the default one, names have no URI.
        hidden_tags: comments, CDATA sections, processing instructions and a DOCTYPE may hold start tags, which begin no
            record. Only reading from the start shows that: each file is read in one piece, and the report says so.
        options: as for `TextFn`: ``with_position``, ``with_block_id``, ``on_error``, ``max_record_bytes``,
            ``compression``, ``index_dir``, ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        ReadError: when it runs, for a record that cannot be read; also with ``on_error="tag"`` for a file that is not
            in UTF-8, as its first bytes tell.

    Source: XMLInputFormat of Apache Mahout, spark-xml.
    """

    def __init__(
        self,
        tag: str,
        *,
        parse: Callable[[bytes], Any] | None = None,
        namespaces: Mapping[str, str] | None = None,
        hidden_tags: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not isinstance(hidden_tags, bool):
            raise InvalidTypeError(f"ReadXml hidden_tags must be True or False (got {show(hidden_tags)}).")
        if hidden_tags:
            self.read_whole("hidden_tags")
        if not isinstance(tag, str):
            raise InvalidTypeError(f"ReadXml tag must be the name of an element, such as 'page' (got {show(tag)}).")
        if not all(map(_NAME.fullmatch, tag.split(":"))) or tag.count(":") > 1:
            raise InvalidValueError(
                f"ReadXml tag must be the name of an element as files have it, such as 'page' or 'dc:page', without "
                f"< and > (got {show(tag)})."
            )
        if parse is not None and not callable(parse):
            raise InvalidTypeError(
                f"ReadXml parse must be a function of a record's bytes, or None (got {show(parse)})."
            )
        self.tag = tag
        self.parse = parse
        self.namespaces = _as_namespaces(namespaces)
        self.hidden_tags = hidden_tags
        self._tag = Tag(tag)

    @classmethod
    def option_names(cls) -> set[str]:
        return super().option_names() - {"delimiter"}

    def flaw(self, error: Exception) -> str:
        if isinstance(error, ElementTree.ParseError) and self.namespaces:
            return f"{expat.ErrorString(error.code)}: line {error.position[0]}"  # declarations have moved the column
        return super().flaw(error)

    def advice(self, error: Exception, offset: int, data: bytes) -> str:
        if isinstance(error, _NoEndError):
            return "It is cut off, or it holds another element of its name: then it cannot be read. "
        code = error.code if isinstance(error, (ElementTree.ParseError, expat.ExpatError)) else None
        if code == _UNBOUND:
            return (
                "Prefixes that are declared around the records have to be named: ReadXml(tag, namespaces={'dc': "
                "'http://...'}), as the root element of the file has them. "
            )
        if code == _NO_ENTITY:
            return (
                "The entities that a DOCTYPE defines are unknown to a part of the file; pass a parse= that knows them. "
            )
        try:
            data.decode()
        except UnicodeDecodeError:
            return "It is not UTF-8: convert the file. "
        return ""

    def records(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        found = self._tag.elements(data)
        while some := list(islice(found, _TOGETHER)):
            for (start, stop, ends), element in zip(some, self._parse_together(data, some), strict=False):
                at, record = offset + start, data[start:stop]
                if len(record) > self.max_record_bytes:
                    raise too_long(path, at, self.max_record_bytes)
                try:
                    value = self._parse(record, ends) if element is None else element
                except _UNREADABLE as error:
                    yield self.bad(path, at, record, error)
                else:
                    yield ((path, at), value) if self.with_position else value

    def _parse_together(self, data: bytes, some: Sequence[tuple[int, int, bool]]) -> Iterable[Any]:
        """Return the `Element` of each record, by one parser for all; Nones if each has to be parsed alone.

        If all can be parsed together, each can: no record has another start tag of the name, and each has the end tag.
        """
        if self.parse is not None or not all(ends for _, _, ends in some):
            return repeat(None)
        records = (data[start:stop] for start, stop, _ in some)
        around = "".join(f" {name}={quoteattr(uri)}" for name, uri in self.namespaces.items())
        try:
            return list(ElementTree.fromstring(b"".join([f"<_{around}>".encode(), *records, b"</_>"])))
        except _UNREADABLE:
            return repeat(None)

    def _parse(self, record: bytes, ends: bool) -> Any:
        if not ends:
            raise _NoEndError(f"this <{self.tag}> does not end before the next one begins, or the file ends")
        return (self.parse or ElementTree.fromstring)(self._declared(record))

    def _declared(self, record: bytes) -> bytes:
        """Return a record with the namespaces that are declared around it, but for those that it declares itself."""
        if not self.namespaces:
            return record
        own = _QUOTED.sub(b"", record[: self._tag.start_tag(record, 0, len(record))])
        wanted = [
            f" {name}={quoteattr(uri)}".encode()
            for name, uri in self.namespaces.items()
            if not re.search(rb"\s" + re.escape(name.encode()) + rb"\s*=", own)
        ]
        after = self._tag.look_bytes - 1
        return record[:after] + b"".join(wanted) + record[after:]

    def _pieces(self, element: Any, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        if self.hidden_tags:
            return self._in_one_piece(restriction, tracker, file)
        return super()._pieces(element, restriction, tracker, file)

    def _blocks(self, element: Any, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        cells = Cells.of(element, restriction, self.block_size)
        first = end = cells.at_or_after(restriction.start)
        file.seek(first)
        text = self._text(file, first, restriction.file.path, is_first=first == 0)
        for cell, end in cells.claimed(restriction.start, tracker):
            yield from text.starting_in(cell, end)
        text.check_after(end)

    def _packed(self, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        blocks = BLOCKS[restriction.codec](file, restriction.file.size, restriction.file.path)
        position = blocks.at_or_after(restriction.start, restriction.stop)
        unpacked = BlockText(blocks, position)
        where = f"{restriction.file.path}, counted in the text from compressed byte {position} on"
        text = None
        for block in unpacked.claimed(tracker):
            text = text or self._text(unpacked, 0, where, blocks.is_first)
            for offset, data in text.starting_in(block.start, block.stop):
                yield unpacked.position(offset), data
        if text is not None:
            text.check_after(block.stop)

    def _in_one_piece(self, restriction: FileRange, tracker: Any, file: io.BufferedReader) -> Pieces:
        if not tracker.try_claim(restriction.start):
            return
        with self.unpack(restriction, file) if restriction.codec else nullcontext(file) as unpacked:
            text = self._text(unpacked, 0, restriction.file.path, is_first=True)
            cell = 0
            while text.goes_on_at(cell):
                yield from text.starting_in(cell, cell + CELL_BYTES)
                cell += CELL_BYTES
            if self.hidden_tags:
                text.check_end()

    def _text(self, stream: Stream, at: int, path: str, is_first: bool) -> ElementText:
        """Return the text of a part; check the encoding if that is the first of its file."""
        text = ElementText(
            stream, at, self._tag, self.max_record_bytes, path, is_first=is_first, may_hide=self.hidden_tags
        )
        if is_first:
            head = text.peek(_HEAD_BYTES)
            if flaw := _flaw(head):
                raise ReadError(f"{path} cannot be read by ReadXml, which reads XML in UTF-8. {flaw}")
        return text


class _NoEndError(ValueError):
    """An element does not end where it should."""


def _flaw(head: bytes) -> str:
    """Return why a file that begins with these bytes is not XML in UTF-8, as a sentence; "" if it may be."""
    declared = _ENCODING.match(head)
    if declared and (name := declared[1].decode("latin-1")).lower() not in _ENCODINGS:
        return f"It is XML in {name}: convert the file, as with iconv -f {name} -t UTF-8."
    if _PAGE.match(head) and b"xmlns" not in head:
        return "It is an HTML page, such as a server sends in place of a file."
    known = signature(head)
    if not known and (b"\0" in head or (head.strip() and not head.isascii() and b"<" not in head)):
        return f"It begins with {show(head[:40])}, which is no XML."
    return known


def _as_namespaces(namespaces: Any) -> dict[str, str]:
    """Return the attributes that declare namespaces, each with its URI."""
    if namespaces is None:
        return {}
    if not isinstance(namespaces, Mapping) or not all(
        isinstance(each, str) for pair in namespaces.items() for each in pair
    ):
        raise InvalidTypeError(
            f"ReadXml namespaces must be a mapping of prefixes to URIs, such as {{'dc': 'http://...'}} (got "
            f"{show(namespaces)})."
        )
    for prefix in namespaces:
        if prefix and not _NAME.fullmatch(prefix):
            raise InvalidValueError(f"ReadXml namespaces must have prefixes, or '' for the default (got {prefix!r}).")
    return {f"xmlns:{prefix}" if prefix else "xmlns": uri for prefix, uri in namespaces.items()}

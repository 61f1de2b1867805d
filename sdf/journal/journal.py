"""The journal of a stream: what was read, what was given out, what is left. A driver resumes from it after a crash.

It is a chain of small blocks, one per batch. Each is a JSON file that names the hash of the block before it. **Every
block carries all that the next one needs**: how far each input was read and how far the output got, as half-open
intervals, empty ones included; the watermark; and the names of the blobs with the remaining work
(`sdf.journal.remaining`). So a driver that resumes reads one block, however long the chain is and however many batches
were empty.

What a batch reads depends on the clock, and is written ahead: the *pin*, before anyone outside sees a record. A driver
that finds it follows it exactly, under the same batch id. The block is the commit. Before the pin nobody has relied on
anything, so a round that finds nothing to read writes nothing. Within a chain these files are created, never replaced:
of two drivers that write the same block, the second one fails and stops.

A block names its writer (`sdf.storage`).

    HEAD                          sequence number and hash of the last block; a hint: a crash may leave it one behind
    blocks/00000000000000000007.json
    ahead/<number of the next block>.pin-0.json
    blobs/<sha256 of the content>

Source: the metadata chain of Open Data Fabric, with its RFC-014.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sdf.errors import JournalCorruptError, JournalError, JournalRuleError, show, show_both
from sdf.journal.chain import (
    HEAD,
    VERSION,
    Block,
    blob_name,
    blobs_of,
    block_name,
    canonical,
    check_commit,
    corrupt,
    find_head,
    read_ahead,
    read_blob,
    read_block,
    sha256,
)
from sdf.journal.fenced_files import FencedFiles
from sdf.storage.places import Storage

__all__ = ["START", "Journal"]

START = "start"
_OLD_PIN = re.compile(r"ahead/(\d{20})\.\d{20}\.pin-\d+\.json")


class Journal(FencedFiles):
    """The journal in a storage, at its last block.

    Args:
        storage: holds the journal, and nothing else.
        config: JSON data that must equal that of the stream that began the journal.
        inputs: the names of the inputs, in order.
        clock: returns the time, in milliseconds since the epoch.

    Raises:
        JournalError: if the journal there belongs to another stream.
        JournalCorruptError: if its last block cannot be read.

    Attributes:
        head: the last block; sequence number 0 is the seed, which holds no batch.
    """

    _UNUSABLE = (
        "the journal in {root} cannot be used: {error}. What is committed stays so, and a batch that the sink has seen "
        "without a commit comes again with the same records: see to it that it can be reached and written, and has "
        "room, and start the stream again."
    )
    _OVERTAKEN = (
        "another driver is ahead of this one in the journal in {root}: this one stops, so that no batch happens twice. "
        "Run one driver for each checkpoint."
    )

    def __init__(
        self, storage: Storage, *, config: Mapping[str, Any], inputs: list[str], clock: Callable[[], int]
    ) -> None:
        super().__init__(storage)
        self._clock = clock
        with self._using():
            for directory in ("blobs", "ahead", "blocks"):  # a driver that died may not have synced it
                storage.sync(directory)
            head = find_head(storage)
        if head is None:
            if storage.names("log") or storage.names("packs"):
                raise JournalError(f"{storage.root} is the checkpoint of a saved run. Use another one for a stream.")
            seed = {"config": config, "inputs": inputs, "kind": "seed", "prev": None, "seq": 0, "time": clock()}
            head = self._append(0, {**seed, "v": VERSION})
        elif head.data["config"] != config:
            was, now = show_both(head.data["config"], dict(config))
            raise JournalError(
                f"the journal in {storage.root} belongs to another stream: it was begun with {was}, this is {now}. Use "
                f"another checkpoint, or the DoFns that it was begun with."
            )
        self.head = head
        self._check_older_pins()
        self._move_head()

    def name(self) -> str:
        """Return the name of this journal; another one has another name, also at the same place."""
        return read_block(self._storage, 0).hash[:16]

    @property
    def root(self) -> object:
        """The place of the journal, for messages."""
        return self._storage.root

    @property
    def was_at(self) -> str | None:
        """The other place where this journal was when its last block was written; None if it is there, or unknown."""
        before = self.head.data.get("root")
        return None if before == str(self.root) else before

    @property
    def driver(self) -> str:
        """The name of the driver that has this journal open; each has another."""
        return self._storage.writer[:16]

    def key(self, content: Any) -> str:
        """Return a name of some content, JSON data, of the next block: another one if that follows another block."""
        return sha256(canonical([self.head.hash, self.next_seq, content]))[:32]

    @property
    def next_seq(self) -> int:
        """The number of the next batch."""
        return self.head.seq + 1

    def _check_older_pins(self) -> None:
        """Raise if an older sdf, which had its own way to write them, has pinned the next batch."""
        for name in self._storage.names("ahead"):
            found = _OLD_PIN.fullmatch(name)
            if found is not None and int(found[1]) == self.next_seq:
                raise JournalError(
                    f"an older sdf has begun batch {self.next_seq} of the journal in {self._storage.root}, and may "
                    f"have given it to the sink. Let that sdf commit it, then go on with this one."
                )

    # What is written ahead of a block.

    def ahead(self, name: str) -> Any:
        """Return the content written ahead of the next block under a name; None if there is none.

        Raises:
            JournalCorruptError: if the file has changed since.
        """
        try:
            entry = read_ahead(self._storage, self._ahead(name))
        except FileNotFoundError:
            return None
        return entry["content"] if entry["prev"] == self.head.hash else None

    def write_ahead(self, name: str, content: Any) -> Any:
        """Write content ahead of the next block, unless there is some; return the content to be followed.

        Raises:
            JournalCorruptError: if the last block is gone.
            JournalFencedError: if another driver has committed the block.
        """
        self._check_there()
        entry = {"content": content, "prev": self.head.hash, "seq": self.next_seq, "v": VERSION}
        data = canonical({**entry, "sha256": sha256(canonical(entry))})
        with self._using():
            try:
                self._storage.create(self._ahead(name), data)
            except FileExistsError:
                there = self.ahead(name)
                if there is not None:
                    return there
                self._storage.replace(self._ahead(name), data)  # it was written after a block that is not in this chain
        if self._storage.size(block_name(self.next_seq)) is not None:
            raise self.fenced()  # that driver may have removed its own file before ours was created
        return content

    def _check_there(self) -> None:
        """Raise if the last block is gone, for instance with the checkpoint: writing would leave a gap in the chain."""
        if self._storage.size(block_name(self.head.seq)) is None:
            name = block_name(self.head.seq)
            flaw = "it has gone while a stream ran. If its disk was unmounted, mount it and start the stream again"
            raise corrupt(self._storage, name, flaw)

    def _ahead(self, name: str) -> str:
        return f"ahead/{self.next_seq:020d}.{name}.json"

    # Blobs.

    def get(self, reference: Mapping[str, Any]) -> bytes:
        """Return the bytes that a block refers to.

        Raises:
            JournalCorruptError: if they are missing or changed.
            JournalFencedError: if another driver has gone on, and has removed them.
        """
        try:
            return read_blob(self._storage, reference)
        except JournalCorruptError as error:
            if self._storage.size(block_name(self.next_seq)) is not None:
                raise self.fenced() from error
            raise

    # Blocks.

    def advance(self, read: Sequence[int], records: int, **fields: Any) -> Block:
        """Append the block of a batch; its intervals go on from those of the last block.

        Args:
            read: how much more the batch read of each input, in order.
            records: number of records that it added to the output.
            fields: ``checkpoint``, ``watermark`` and ``status``; see `check_commit`.
        """
        before = self.head.data
        begun = before["kind"] == "commit"
        reached = before["inputs"] if begun else [{"id": name, "stop": 0} for name in before["inputs"]]
        given = before["output"]["stop"] if begun else 0
        inputs = [
            {"id": one["id"], "start": one["stop"], "stop": one["stop"] + more}
            for one, more in zip(reached, read, strict=True)
        ]
        return self.commit({"inputs": inputs, "output": {"start": given, "stop": given + records}, **fields})

    def commit(self, fields: Mapping[str, Any]) -> Block:
        """Append a block: from now on the batch has happened. Then remove what was written ahead of it.

        Args:
            fields: ``inputs``, ``output``, ``checkpoint``, ``watermark`` and ``status``; see `check_commit`.

        Raises:
            JournalRuleError: if it does not follow from the last block; then nothing is written.
            JournalCorruptError: if the last block is gone.
            JournalFencedError: if another driver has written this block.
        """
        self._check_there()
        before = self.head
        data = {
            **fields,
            "config": before.data["config"],
            "kind": "commit",
            "prev": before.hash,
            "prev_checkpoint": before.data.get("checkpoint"),
            "seq": self.next_seq,
            "time": max(self._clock(), before.data["time"]),  # the clock may have been set back
            "v": VERSION,
        }
        check_commit(before, data)
        for blob in blobs_of(data["checkpoint"]):
            if blob not in blobs_of(data["prev_checkpoint"]) and self._storage.size(blob_name(blob)) != blob["size"]:
                raise JournalRuleError(f"block {data['seq']}: its checkpoint {show(blob)} is not stored.")
        self.head = self._append(self.next_seq, data)
        self._move_head()
        with self._using():
            for name in self._storage.names("ahead"):
                if name < f"ahead/{self.next_seq:020d}":
                    self._storage.remove(name)
            kept = [*blobs_of(data["checkpoint"]), *blobs_of(before.data.get("checkpoint"))]
            for blob in blobs_of(before.data.get("prev_checkpoint")):
                if blob not in kept:
                    self._storage.remove(blob_name(blob))
        return self.head

    def _append(self, seq: int, data: Mapping[str, Any]) -> Block:
        written = {"root": str(self.root), "writer": self._storage.writer}  # else two drivers may write the same bytes
        content = canonical({**data, **written})
        self._create(block_name(seq), content)
        return Block(seq, sha256(content), json.loads(content))

    def _move_head(self) -> None:
        head = canonical({"hash": self.head.hash, "seq": self.head.seq})
        with self._using():
            try:
                if self._storage.read(HEAD) == head:
                    return
            except FileNotFoundError:
                pass
            self._storage.replace(HEAD, head)

"""The chain of a journal's blocks: what a block is, which one is the last, and which may follow it.

This module only reads; `sdf.journal.journal` writes. If HEAD is there, finding the last block lists no directory, and
normally reads at most two blocks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs

from sdf.errors import JournalCorruptError, JournalError, JournalRuleError, show
from sdf.storage.places import Storage

__all__ = [
    "HEAD",
    "VERSION",
    "Block",
    "blob_name",
    "blobs_of",
    "block_name",
    "canonical",
    "check_commit",
    "checked_blob",
    "corrupt",
    "find_head",
    "read_ahead",
    "read_blob",
    "read_block",
    "sha256",
    "verify",
]

VERSION = 1
HEAD = "HEAD"
_BLOCK_NAME = re.compile(r"blocks/\d{20}\.json")
_SEED_KEYS = {"config", "inputs", "kind", "prev", "seq", "time", "v"}
_KEYS = {
    "seed": _SEED_KEYS,
    "commit": _SEED_KEYS | {"output", "checkpoint", "prev_checkpoint", "watermark", "status"},
}


@attrs.frozen
class Block:
    """A block of the chain: its number, the hash of its bytes, and its JSON data."""

    seq: int
    hash: str
    data: Mapping[str, Any]


def find_head(storage: Storage) -> Block | None:
    """Return the last block, None if there is none; reads few blocks, and lists no directory if HEAD is there."""
    hint = _hint(storage)
    if hint is not None and storage.size(block_name(hint["seq"])) is None:  # a block is synced before HEAD names it
        raise corrupt(storage, block_name(hint["seq"]), "HEAD names it, and it is missing")
    seq = _listed(storage) if hint is None else hint["seq"]
    if seq is None:
        return None
    block = read_block(storage, seq)
    if hint is not None and hint["hash"] != block.hash:
        raise corrupt(storage, block_name(seq), "HEAD has another hash for it")
    if storage.size(block_name(seq + 1)) is None:
        return block
    after = read_block(storage, seq + 1)
    if after.data["prev"] != block.hash:
        raise corrupt(storage, block_name(seq + 1), f"it does not follow block {seq}")
    return after if storage.size(block_name(seq + 2)) is None else read_block(storage, _last(storage))


def _hint(storage: Storage) -> Any:
    """Return the content of HEAD, None if it is missing or torn."""
    try:
        hint = json.loads(storage.read(HEAD))
        known = type(hint["seq"]) is int and hint["seq"] >= 0 and isinstance(hint["hash"], str)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return hint if known else None


def _listed(storage: Storage) -> int | None:
    """Return the number of the last block from a listing, None if there is none; raise if another one is missing."""
    numbers = [int(name[7:27]) for name in _whole(storage) if _BLOCK_NAME.fullmatch(name)]
    missing = next((seq for seq, number in enumerate(numbers) if seq != number), None)
    if missing is not None:
        raise corrupt(storage, block_name(missing), "it is missing, and so is HEAD, but later ones are there")
    if numbers:
        return numbers[-1]
    return None if storage.size(block_name(0)) is None else 0  # the listing lags behind; `find_head` looks further


def _whole(storage: Storage) -> list[str]:
    """Return the names of what is in the directory of blocks, without the last block if that is torn."""
    names = storage.names("blocks")
    is_torn = bool(names) and _BLOCK_NAME.fullmatch(names[-1]) and storage.size(names[-1]) is None
    return names[:-1] if is_torn else names


def _last(storage: Storage) -> int:
    """Return the number of the last block, by probing O(log n) of them."""
    present, absent = 0, 1
    while storage.size(block_name(absent)) is not None:
        present, absent = absent, absent * 2
    while absent - present > 1:
        middle = (present + absent) // 2
        present, absent = (middle, absent) if storage.size(block_name(middle)) is not None else (present, middle)
    return present


def read_block(storage: Storage, seq: int) -> Block:
    """Return a block.

    Raises:
        JournalCorruptError: if the file is missing, or is not the block of that number.
    """
    try:
        content = storage.read(block_name(seq))
    except FileNotFoundError as error:
        raise corrupt(storage, block_name(seq), "it is missing") from error
    data = parse(storage, block_name(seq), content)
    if data.get("seq") != seq or not _KEYS.get(str(data.get("kind")), {None}) <= data.keys():
        raise corrupt(storage, block_name(seq), f"it is no block of number {seq}")
    return Block(seq, sha256(content), data)


def parse(storage: Storage, name: str, content: bytes) -> Any:
    """Return the JSON object that is the content of a file.

    Raises:
        JournalCorruptError: if the content is not an object that sdf writes.
        JournalError: if it has another version than this sdf's.
    """
    try:
        data = json.loads(content)
        version = data["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise corrupt(storage, name, "it is not what sdf writes") from error
    if version != VERSION:
        raise JournalError(
            f"{storage.root}/{name} has version {show(version)}, but this release of sdf reads version {VERSION}. "
            f"Use the release that wrote it."
        )
    return data


def verify(storage: Storage) -> Iterator[Block]:
    """Yield all blocks, from the seed on, each checked against its predecessor.

    Raises:
        JournalCorruptError, JournalRuleError: at the first invalid block.
    """
    before = None
    names = _whole(storage)
    for name in names:
        if not _BLOCK_NAME.fullmatch(name):
            raise corrupt(storage, name, "sdf writes no file of that name")
    for seq in range(int(names[-1][7:27]) + 1 if names else 0):
        block = read_block(storage, seq)
        if before is not None:
            if block.data["prev"] != before.hash:
                raise corrupt(storage, block_name(seq - 1), f"block {seq} has another hash for it")
            check_commit(before, block.data)
        yield block
        before = block


def read_blob(storage: Storage, reference: Mapping[str, Any]) -> bytes:
    """Return the bytes that a block refers to; raise JournalCorruptError if they are missing or changed."""
    return checked_blob(storage, reference, partial(corrupt, storage))


def checked_blob(
    storage: Storage, reference: Mapping[str, Any], flawed: Callable[[str, str], JournalCorruptError]
) -> bytes:
    """Return the bytes that a block or a record refers to; ``flawed`` makes the error of a name and its flaw."""
    name = blob_name(reference)
    try:
        data = storage.read(name)
    except FileNotFoundError as error:
        raise flawed(name, "it is missing") from error
    if sha256(data) != reference["sha256"]:
        raise flawed(name, "its content does not match the hash in its name")
    return data


def read_ahead(storage: Storage, name: str) -> Any:
    """Return the entry that was written ahead in a file; raise JournalCorruptError if it has changed."""
    entry = parse(storage, name, storage.read(name))
    stored_hash = entry.pop("sha256", None)
    if not {"content", "prev"} <= entry.keys() or stored_hash != sha256(canonical(entry)):
        raise corrupt(storage, name, "its content is not what its hash says")
    return entry


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_commit(before: Block, data: Mapping[str, Any]) -> None:
    """Raise unless a commit block follows from the block before it.

    A commit block has: ``inputs``, a list of ``{"id", "start", "stop"}`` with every input, in the seed's order;
    ``output``, ``{"start", "stop"}`` in records; ``checkpoint`` and ``prev_checkpoint``, lists of references to the
    blobs with the work left after this batch and after the one before, None for none; ``watermark``; ``status``,
    "running" or "done"; ``lost``, texts, if something was lost; ``late``, how many records came late, if any did.

    Raises:
        JournalRuleError: naming the first broken rule.
    """
    old = before.data
    seed = old["kind"] == "seed"
    ids = old["inputs"] if seed else [entry["id"] for entry in old["inputs"]]
    reached = [0] * len(ids) if seed else [entry["stop"] for entry in old["inputs"]]
    intervals = [*data["inputs"], data["output"]]
    rules = {
        "blocks are numbered in order": data["seq"] == before.seq + 1 and data["kind"] == "commit",
        "it names the hash of the block before": data["prev"] == before.hash,
        "time does not go back": data["time"] >= old["time"],
        "an interval is 0 <= start <= stop": all(
            type(one["start"]) is int and type(one["stop"]) is int and 0 <= one["start"] <= one["stop"]
            for one in intervals
        ),
        "the output starts where the block before stopped": data["output"]["start"]
        == (0 if seed else old["output"]["stop"]),
        "the inputs are the same, in order": [entry["id"] for entry in data["inputs"]] == ids,
        "each input starts where the block before stopped": [entry["start"] for entry in data["inputs"]] == reached,
        "it names the checkpoint before": data["prev_checkpoint"] == old.get("checkpoint"),
        "the watermark is neither dropped nor lowered": seed
        or old["watermark"] is None
        or (data["watermark"] is not None and data["watermark"] >= old["watermark"]),
        "a checkpoint is dropped only when all is done": data["status"] == "done" or data["checkpoint"] is not None,
        "a block changes something": any(one["start"] < one["stop"] for one in intervals)
        or any(data[key] != old.get(key) for key in ("checkpoint", "watermark", "status")),
        "no block follows the status 'done'": old.get("status") != "done",
        "the configuration is the seed's": data["config"] == old["config"],
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise JournalRuleError(
            f"block {data['seq']} breaks the chain: {broken[0]} (after {show(dict(old))}: {show(dict(data))})."
        )


def canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def block_name(seq: int) -> str:
    return f"blocks/{seq:020d}.json"


def blobs_of(checkpoint: Any) -> list[Mapping[str, Any]]:
    """Return the references to all blobs of a checkpoint; older blocks refer to one blob, without a list."""
    return [checkpoint] if isinstance(checkpoint, dict) else list(checkpoint or ())


def blob_name(reference: Mapping[str, Any]) -> str:
    return f"blobs/{reference['sha256']}"


def corrupt(storage: Storage, name: str, flaw: str) -> JournalCorruptError:
    return JournalCorruptError(
        f"{storage.root}/{name}: {flaw}. A crash cannot cause this. Restore the checkpoint from a copy, or start over "
        f"with an empty one. Batch ids will then repeat with other records: deduplicate by batch.key, not by batch.id, "
        f"or the sink skips new records. The batches of the lost blocks are delivered again. "
        f"`python -m sdf.journal verify {storage.root}` names the first damaged block."
    )

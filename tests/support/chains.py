"""What the blocks of a stream's journal say."""

from itertools import pairwise


def watermarks_only(blocks):
    """Return the blocks, JSON data from the seed on, in which only the watermark has moved."""
    return [
        block
        for before, block in pairwise(blocks)
        if block["watermark"] != before.get("watermark")
        and all(one["start"] == one["stop"] for one in [*block["inputs"], block["output"]])
    ]

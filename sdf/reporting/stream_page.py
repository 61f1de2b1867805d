"""A stream as a page for browsers: the records, seconds, backlog and watermark lag of each batch."""

from __future__ import annotations

from collections.abc import Sequence

from sdf.errors import show
from sdf.reporting.html import bars, document, figures
from sdf.reporting.progress import StreamProgress

__all__ = ["stream_page"]


def stream_page(history: Sequence[StreamProgress]) -> str:
    """Return the page of a stream, from its progress after each batch."""
    if not history:
        return document("stream", ["<p>No batch was committed.</p>"])
    last = history[-1]
    shown = [
        (f"{last.batches:,}", "batches"),
        (f"{last.all_records:,}", "records"),
        (f"{last.backlog:,}", "work items due"),
        ("none" if last.watermark is None else show(last.watermark, 40), "watermark"),
        *([(f"{last.late:,}", "late records")] if last.late else []),
    ]
    parts = [figures(shown), f"<p class=soft>Batches {history[0].batch:,} to {last.batch:,}, from left to right.</p>"]
    rows = [
        ("Records of each batch", "records", [float(one.records) for one in history]),
        ("Seconds of each batch", "s", [one.seconds for one in history]),
        ("Work items due after it", "work items", [float(one.backlog) for one in history]),
        ("Records that were not read yet", "records", [float(one.behind_records or 0) for one in history]),
        ("Bytes that were not read yet", "bytes", [float(one.behind_bytes or 0) for one in history]),
        ("How far the watermark is behind", "s", [max(one.lag_seconds or 0.0, 0.0) for one in history]),
    ]
    for title, unit, values in rows:
        if any(values):
            says = [f"batch {one.batch:,}: {value:,.4g} {unit}" for one, value in zip(history, values, strict=True)]
            parts += [f"<h2>{title}</h2>", *bars(list(zip(values, says, strict=True)), unit)]
    return document(last.name, parts)

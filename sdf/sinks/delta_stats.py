"""Statistics of a Parquet file as the log of a Delta table has them; readers skip files by them."""

from __future__ import annotations

from datetime import date
from typing import Any

__all__ = ["stats_of"]

_LONGEST = 32  # texts, in characters, as of other writers


def stats_of(footer: Any) -> dict[str, Any]:
    """Return the statistics of a Parquet file, given its footer: rows, nulls and the ends of the simplest columns."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(footer.num_columns):
        name = footer.schema.column(number).path
        groups = [footer.row_group(group).column(number) for group in range(footer.num_row_groups)]
        stats = [group.statistics for group in groups]
        if name not in footer.schema.to_arrow_schema().names or not all(one and one.has_null_count for one in stats):
            continue  # nested, or unknown
        nulls[name] = sum(one.null_count for one in stats)
        ends = [(one.min, one.max) for one in stats if one.has_min_max]
        unknown = any(not one.has_min_max and one.num_values for one in stats)
        if ends and not unknown and all(map(_is_simple, (value for pair in ends for value in pair))):
            low[name] = _as_json(min(pair[0] for pair in ends))
            high[name] = _as_json(max(pair[1] for pair in ends))
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _is_simple(value: Any) -> bool:
    """Tell whether statistics mean the same to everybody: not so for NaN, times and long texts."""
    return type(value) in (int, date) or (type(value) is str and len(value) <= _LONGEST)


def _as_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value

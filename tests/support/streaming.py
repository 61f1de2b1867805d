"""Options of a stream by their own names, for helpers that add defaults to them."""

import attrs

from sdf import Pace, Until


def grouped(**options):
    """Return options of `stream_sdf`; those of a `Pace` and an `Until` are put into one of these."""
    for name, kind in (("pace", Pace), ("until", Until)):
        options[name] = kind(**{key: options.pop(key) for key in attrs.fields_dict(kind) if key in options})
    return options

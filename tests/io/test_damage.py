"""Files that are damaged at any byte: whoever reads a format with checksums gives the records before, and an error."""

import pytest
from support.damaged_files import DAMAGE, FORMATS, LINES

CHECKED = {name: fmt for name, fmt in FORMATS.items() if fmt.checked}
EVERY_BYTE = pytest.mark.slow("the same test at every seventh byte")


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=EVERY_BYTE)])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", CHECKED)
def test_damage_at_any_byte_gives_no_wrong_record(tmp_path, name, damage, step):
    """One bit is flipped, the rest is missing, or is zeros: the records are the first ones, and all or an error.

    A file may be cut off, or zeros may follow it, where one of its parts ends: nothing in it says how many there are.
    """
    fmt = CHECKED[name]
    path = tmp_path / fmt.name
    wrong, noticed = [], 0
    for at in list(fmt.checked if damage == "flipped" else range(len(fmt.data)))[::step]:
        path.write_bytes(fmt.damaged(damage, at))
        found, failed = fmt.read(str(path))
        noticed += failed
        if found != LINES[: len(found)] or not (failed or found == LINES or damage != "flipped"):
            wrong.append((at, found))
    assert wrong == []
    assert noticed > 10

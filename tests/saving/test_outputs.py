"""Where a saved run puts what it gives, and what it has done: places that would destroy each other are refused."""

import pytest

from sdf.errors import InvalidValueError
from sdf.saving.outputs import checkpoint_of, sinks_by_output
from sdf.sinks import JsonLinesFiles, TextFiles


@pytest.mark.parametrize("within", ["out", "out/checkpoint", "bad/deep/down"])
def test_a_checkpoint_within_a_target_is_refused(tmp_path, within):
    """The commit makes that directory."""
    sinks = [("main", JsonLinesFiles(tmp_path / "out")), ("bad", TextFiles(tmp_path / "bad"))]
    with pytest.raises(InvalidValueError, match=r"is within .*give a place beside it"):
        checkpoint_of(tmp_path / within, sinks, "save_sdf")


@pytest.mark.parametrize("beside", ["outer", "out.checkpoint", "."])
def test_a_checkpoint_may_lie_beside_a_target_or_around_it(tmp_path, beside):
    """Though their names begin alike."""
    sinks = [("main", JsonLinesFiles(tmp_path / "out"))]
    assert checkpoint_of(tmp_path / beside, sinks, "save_sdf").root == tmp_path / beside


def test_without_a_checkpoint_it_lies_beside_the_main_output(tmp_path):
    """Whatever other outputs there are."""
    sinks = [("main", JsonLinesFiles(tmp_path / "out")), ("bad", TextFiles(tmp_path / "bad"))]
    assert checkpoint_of(None, sinks, "save_sdf").root == tmp_path / "_out.sdf"


@pytest.mark.parametrize(("paths", "refused"), [(("a", "a/b"), True), (("a/b", "a"), True), (("a", "ab"), False)])
def test_a_target_within_another_one_is_refused(tmp_path, paths, refused):
    """Whichever is named first."""
    given = dict(zip(("main", "bad"), (JsonLinesFiles(tmp_path / path) for path in paths), strict=True))
    if refused:
        with pytest.raises(InvalidValueError, match=r"which is within .*Give paths that lie apart"):
            sinks_by_output(given, (), "save_sdf")
    else:
        assert [name for name, _ in sinks_by_output(given, (), "save_sdf")] == ["main", "bad"]


@pytest.mark.parametrize(
    ("tags", "outputs"),
    [((), ["bad"]), (("bad",), ["main"]), (("bad",), ["bad"]), (("bad",), ["main", "worse"])],
)
def test_each_output_has_a_sink(tmp_path, tags, outputs):
    """The main one too, whether or not tags are declared."""
    given = {name: TextFiles(tmp_path / name) for name in outputs}
    with pytest.raises(InvalidValueError, match=r"needs a sink for each output, \('main', 'bad'\); it got sinks for"):
        sinks_by_output(given, tags, "save_sdf")

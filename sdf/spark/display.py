"""Shows progress while a run goes on: in a bar, or through a function of the user's.

Runners report their progress twice a second (`Display.show`), and never wait: another thread shows it. An error in that
thread is logged once, and ends the display, not the run.
"""

from __future__ import annotations

import importlib
import logging
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from sdf.errors import RUN_DOCTOR, InvalidTypeError, MissingExtraError, how_to_install, show
from sdf.reporting.progress import RunProgress, StreamProgress, is_terminal

__all__ = ["Display", "display"]

log = logging.getLogger("sdf.progress")

_EVERY_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 1.0

Progress = RunProgress | StreamProgress


class Display:
    """Passes progress to a function, in a thread that ends with the run.

    Args:
        function: called with the latest progress; it may miss some, but not the last one of a run.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._latest: Progress | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._shown_at = -math.inf
        self._broken = False

    def due(self) -> bool:
        """Tell whether it is time to show something."""
        return time.monotonic() - self._shown_at >= _EVERY_SECONDS and not self._broken

    def show(self, progress: Progress) -> None:
        """Show this progress soon, unless a newer one comes first."""
        with self._changed:
            self._shown_at = time.monotonic()
            if self._broken:
                return
            self._latest = progress
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sdf-progress", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until the last progress has been shown, at most a second."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, _LONGEST_WAIT_SECONDS)

    def _run(self) -> None:
        ended = False
        while True:
            with self._changed:
                while self._latest is None and not ended:
                    self._changed.wait()
                progress, self._latest = self._latest, None
                if progress is None or self._broken:
                    self._thread = None
                    self._changed.notify_all()
                    return
            try:
                self._function(progress)
                ended = progress.ended
            except BaseException:  # even SystemExit would end only this thread, unseen
                log.exception("progress cannot be shown any more; the run goes on")
                ended = self._broken = True


def display(progress: bool | Callable[[Any], Any] | None, who: str) -> Display | None:
    """Return the display that a user asked for; None if nothing is to be shown.

    Args:
        progress: a function; True for a bar; None for a bar if there is a terminal or a notebook, and tqdm; False.
        who: name of the caller, for the error.

    Raises:
        InvalidTypeError: if it is none of these.
        MissingExtraError: for True without tqdm.
    """
    if progress is False:
        return None
    if callable(progress):
        return Display(progress)
    if progress is not None and progress is not True:
        raise InvalidTypeError(f"{who} progress must be True, False, None or a function (got {show(progress)}).")
    if progress is None and not (is_terminal(sys.stderr) or _is_notebook()):
        return None
    # tqdm.auto takes each program that has imported ipykernel for a notebook
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "IProgress not found")  # a notebook without ipywidgets: a bar of text
            tqdm = importlib.import_module("tqdm.auto" if _is_notebook() else "tqdm").tqdm
    except ImportError as error:
        if progress is None:
            return None
        raise MissingExtraError(
            f"{who} progress=True needs tqdm, which is not installed here. Install it with: {how_to_install('tqdm')} "
            f"(on the driver), or pass a function. {RUN_DOCTOR}"
        ) from error
    return Display(_Bar(tqdm))


def _is_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook. A program that runs notebooks imports ipykernel too."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and kernel.IPKernelApp.initialized()


class _Bar:
    """A bar per run, and for a stream a line that counts its batches."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            unit = " batches" if isinstance(progress, StreamProgress) else ""
            known = progress.known if isinstance(progress, RunProgress) else None
            self._bar = self._tqdm(desc=progress.name, total=known, unit=unit, unit_scale=not unit, dynamic_ncols=True)
        bar = self._bar
        if isinstance(progress, RunProgress):
            if bar.total != progress.known:
                began = bar.start_t
                bar.reset(progress.known)  # the widget of a notebook does not look at bar.total
                bar.start_t = began
            bar.n = progress.done
            splits = "1 split" if progress.splits == 1 else f"{progress.splits:,} splits"
            bar.set_postfix_str(f"{progress.tasks_busy}/{progress.slots} slots, {splits}", refresh=False)
        else:
            bar.n = progress.batches
            lag = "" if progress.lag_seconds is None else f", lag {progress.lag_seconds:.1f} s"
            mark = "" if progress.watermark is None else f", watermark {show(progress.watermark, 40)}"
            behind = {"records": progress.behind_records, "bytes": progress.behind_bytes}
            told = "".join(f", {count:,} {unit} behind" for unit, count in behind.items() if count)
            told += f", {progress.late:,} late" if progress.late else ""
            due = f"{progress.all_records:,} records, {progress.backlog} due"
            bar.set_postfix_str(f"{due}{told}{mark}{lag}", refresh=False)
        bar.refresh()
        if progress.ended:
            bar.close()
            self._bar = None

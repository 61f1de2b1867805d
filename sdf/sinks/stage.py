"""Stage: where the workers put the files of one commit, and from where the driver makes them visible.

It lies beside the target, in a directory of the commit's own. The driver makes it, with a *nonce* that names the commit
and the output. A worker that does not find this nonce sees another storage than the driver, or comes too late.
"""

from __future__ import annotations

import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO
from urllib.parse import quote

from sdf.errors import RUN_DOCTOR, SinkError
from sdf.sinks.sink import SinkRun, Token
from sdf.storage.places import Storage

__all__ = ["COMMITTED", "NONCE", "Stage", "content_of", "nonce_of", "staging_of"]

NONCE = "nonce"
COMMITTED = "_SUCCESS"  # readers skip it; it holds the token of the commit


def staging_of(token: Token) -> str:
    """Return the name of the directory of a commit."""
    return f"stage-{quote(str(token), safe='')}"


def nonce_of(token: Token, tag: str) -> bytes:
    """Return the nonce of an output of a commit."""
    return json.dumps({"app": token.app, "version": token.version, "tag": tag}).encode()


def content_of(storage: Storage, name: str) -> bytes | None:
    """Return the content of a small file, None if there is none."""
    with suppress(FileNotFoundError):
        return storage.read(name)
    return None


class Stage(ABC):
    """The staging directory of one commit.

    Args:
        path: the path or URL of the target.
        beside: the path or URL of the directory in which staging lies.
        token: the token of the commit. With a version above 0 the commit adds files to the target, which is the result
            of version 0.
        who: the sink, for messages.
    """

    staging: Any  # the `Storage` of the directory

    def __init__(self, path: str, beside: str, token: Token, who: str) -> None:
        self.path = path
        self.beside = beside
        self.token = token
        self.who = who
        self.where = f"{beside}/{staging_of(token)}"
        self.adds = token.version > 0
        self.mark = str(Token(token.app, 0)).encode()

    def prepare(self, run: SinkRun) -> None:
        """Make the directory and its nonce.

        Raises:
            SinkError: if the target is neither empty nor of this commit; if it adds, if the target is not of this run.
        """
        if self.committed():
            if not self.adds:
                return
        elif self.adds:
            raise self._no_result()
        else:
            self._check_free()
        nonce = nonce_of(run.token, run.tag)
        try:
            self.staging.create(NONCE, nonce)
        except FileExistsError:
            found = self.staging.read(NONCE)
            if found != nonce:
                raise SinkError(
                    f"{self.who} cannot write output {run.tag!r} to {self.path!r}: {self.where!r} belongs to "
                    f"{found.decode(errors='replace')}. Give each output a path of its own."
                ) from None
        self._secure()

    @abstractmethod
    def _check_free(self) -> None:
        """Raise SinkError unless the target is empty or of this commit."""

    def _secure(self) -> None:
        """Let no crash undo that the directory is there."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, None if there is none."""
        return content_of(self.staging, name)

    @abstractmethod
    def create(self, name: str, data: bytes) -> None:
        """Write a small file; FileExistsError if there is one, FileNotFoundError if staging has gone."""

    @abstractmethod
    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a new file to write. It is durable when the context ends, and not there if it ends by an exception."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        self.staging.remove(name)

    @abstractmethod
    def committed(self) -> bool:
        """Tell whether the target is the result of this run; from then on no crash can undo that."""

    @abstractmethod
    def commit(self, files: Mapping[str, int]) -> None:
        """Make exactly these files visible, given by their sizes, all or nothing where the storage can do that."""

    def add(self, files: Mapping[str, int]) -> None:
        """Add files, given by their sizes, to the target, one by one; those that are there were added before."""
        if not self.committed():
            raise self._no_result()
        if self.read(NONCE) is None:
            raise self._gone()
        self._publish(files)

    @abstractmethod
    def _publish(self, files: Mapping[str, int]) -> None:
        """Add files of staging that are not there yet; raise SinkError if one is not what was written."""

    @abstractmethod
    def open_result(self, ending: str) -> AbstractContextManager[BinaryIO] | None:
        """Open a file of the target whose name ends so to read it; None if there is none."""

    def abort(self, files: Mapping[str, int]) -> None:
        """Remove all that this commit has made; raise SinkError if it was committed."""
        if self.committed():
            raise SinkError(
                f"{self.who} does not remove {self.path!r}: {self.token} was committed. Run again to end the run, or "
                f"remove the directory yourself."
            )
        self._withdraw(files)
        self.clean()

    def _withdraw(self, files: Mapping[str, int]) -> None:
        """Remove what a commit that did not end has put into the target."""

    @abstractmethod
    def clean(self) -> None:
        """Remove the staging directory."""

    def check(self, tag: str) -> None:
        """Raise SinkError, on a worker, unless the driver's nonce is there."""
        found = self.read(NONCE)
        if found == nonce_of(self.token, tag):
            return
        if found is None:
            raise SinkError(
                f"{self.who} on host {socket.gethostname()!r}: the staging directory {self.where!r} of this run is "
                f"not there. Either this host sees another {self.path!r} than the driver: then give a path that the "
                f"driver and all executors share (a network disk, or a URL such as s3://bucket/name). Or the run has "
                f"ended, and this attempt came too late: then nothing is amiss. {RUN_DOCTOR}"
            )
        raise SinkError(
            f"{self.who} on host {socket.gethostname()!r}: the staging directory {self.where!r} belongs to "
            f"{found.decode(errors='replace')}, but this is output {tag!r} of {self.token}. Give each output a path "
            f"of its own."
        )

    def _not_empty(self, found: Any) -> SinkError:
        return SinkError(
            f"{self.who} writes to a directory that is empty or not there yet, but {self.path!r} has {found!r}, which "
            f"is not of this run ({self.token}). Nothing was changed there. Remove it, or give another path."
        )

    def _lost(self, name: str, size: int, found: int | None) -> SinkError:
        what = "is not there" if found is None else f"has {found} bytes"
        return SinkError(
            f"{self.who} cannot commit {self.token} to {self.path!r}: the file {name!r} of {size} bytes {what} in "
            f"{self.where!r}. Nothing was committed. It was written and then removed or changed by somebody else; "
            f"restore it and run again, or start over with a new checkpoint."
        )

    def _no_result(self) -> SinkError:
        return SinkError(
            f"{self.who} cannot add to {self.path!r}: the result of this run ({self.mark.decode()}) is not there any "
            f"more: it was removed, moved or replaced. Nothing was changed. Put it back and make the same call again; "
            f"or save all of it anew, with a new checkpoint."
        )

    def _gone(self) -> SinkError:
        return SinkError(
            f"{self.who} cannot commit {self.token} to {self.path!r}: there is neither a committed result there nor "
            f"the staging directory {self.where!r}. Both were removed, or the path is another one than before. Start "
            f"over with a new checkpoint."
        )

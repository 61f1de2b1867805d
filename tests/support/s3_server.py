"""An S3 server on loopback, in this process, that can be told to misbehave in the ways that real ones do."""

import contextlib
import functools
import socket
import threading
import uuid

import botocore.session
import fsspec
from moto.s3.models import s3_backends
from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

botocore.session.create_loader = functools.cache(botocore.session.create_loader)  # else each client parses S3's model
ACCOUNT = "123456789012"  # that of whoever comes with any key
CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code><Message>At the same time.</Message></Error>"


class Quiet(WSGIRequestHandler):
    def log(self, *args):
        pass


class S3Server:
    """Makes buckets, and counts and disturbs requests.

    Attributes:
        asked: method and path of each request.
        disturb: called with each request, as WSGI has it; returns None, or what is to be done instead of answering it:
            "lose the reply" or "conflict".
    """

    def __init__(self):
        self.asked = []
        self.disturb = None
        self._app = create_backend_app("s3")
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        self.config = {
            "endpoint_url": f"http://127.0.0.1:{self._server.port}",
            "key": "key",
            "secret": "secret",
            "client_kwargs": {"region_name": "us-east-1", "verify": False},  # no certificates are read for HTTP
        }
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def _answer(self, environ, start_response):
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        what = None if self.disturb is None else self.disturb(environ)
        if what == "conflict":
            start_response("409 Conflict", [("Content-Type", "application/xml")])
            return [CONFLICT]
        if what == "lose the reply":
            list(self._app(environ, start_response))
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        return self._app(environ, start_response)

    def fs(self, **options):
        """Return a file system on this server, of its own."""
        return fsspec.filesystem("s3", skip_instance_cache=True, **{**self.config, **options})

    @functools.cached_property
    def shared_fs(self):
        """A file system on this server for all tests that only look at it; a client takes a tenth of a second."""
        return self.fs(use_listings_cache=False)

    def bucket(self):
        """Make a bucket; return its name."""
        name = f"bucket-{uuid.uuid4().hex}"
        s3_backends[ACCOUNT]["aws"].create_bucket(name, "us-east-1")
        return name

    def put(self, bucket, keys):
        """Make small objects in a bucket, many of them without a request each."""
        for key in keys:
            s3_backends[ACCOUNT]["aws"].put_object(bucket, key, b"x")

    @contextlib.contextmanager
    def disturbed(self, disturb):
        """Disturb requests meanwhile."""
        self.disturb = disturb
        try:
            yield
        finally:
            self.disturb = None

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

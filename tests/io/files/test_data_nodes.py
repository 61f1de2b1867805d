"""An error of a DataNode, to which the NameNode sends every reader, is an error: fsspec takes it for content."""

import http.server
import json
import threading

import pytest

from sdf import run_direct
from sdf.errors import ProcessError
from sdf.io import ReadLines

pytest.importorskip("requests")
STATUS = {"length": 790, "type": "FILE", "modificationTime": 1, "pathSuffix": ""}


class Servers(http.server.BaseHTTPRequestHandler):
    """The NameNode, which answers, and a DataNode, which refuses."""

    def do_GET(self):
        if self.path.startswith("/data"):
            self.answer(403, {"RemoteException": {"exception": "InvalidToken", "message": "expired"}})
        elif "GETFILESTATUS" in self.path:
            self.answer(200, {"FileStatus": STATUS})
        else:
            self.answer(307, {}, Location=f"http://127.0.0.1:{self.server.server_port}/data")

    def answer(self, status, content, **headers):
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_an_error_of_a_data_node_is_not_read_as_a_line():
    """With what it says."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Servers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(ProcessError, match=r"a DataNode says 403 Forbidden: .*InvalidToken"):
                run_direct([f"webhdfs://127.0.0.1:{server.server_port}/a.txt"], ReadLines())
        finally:
            server.shutdown()

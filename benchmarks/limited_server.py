"""A server with a rate limit: in no second, wherever it begins, does it answer more calls than that.

`LimitedServer` runs it in a process of its own.
"""

import collections
import multiprocessing
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def _serve(limit, jitter_seconds, answer_seconds, ready, asked):
    lock, counted, facts = (
        threading.Lock(),
        collections.deque(),
        {"served": 0, "refused": 0, "began": None, "ended": None},
    )
    chance = random.Random(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            time.sleep(chance.random() * jitter_seconds)  # on its way
            with lock:
                now = time.monotonic()
                while counted and counted[0] <= now - 1:
                    counted.popleft()
                fits = len(counted) < limit
                facts["served" if fits else "refused"] += 1
                facts["began"], facts["ended"] = facts["began"] or now, now
                if fits:
                    counted.append(now)
            if fits:
                time.sleep(answer_seconds)
            self.send_response(200 if fits else 429)
            if not fits:
                self.send_header("Retry-After", "1")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args):
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ready.send(server.server_port)
    while asked.recv() == "facts":
        with lock:
            asked.send(dict(facts))
            facts.update(served=0, refused=0, began=None, ended=None)
            counted.clear()


class LimitedServer:
    """A context manager; its ``port`` is on loopback.

    Args:
        limit: the calls that it answers in a second.
        jitter_seconds: calls take from nothing to so long to be counted.
        answer_seconds: how long an answer takes.
    """

    def __init__(self, limit, jitter_seconds, answer_seconds):
        context = multiprocessing.get_context("spawn")
        ready, theirs = context.Pipe()
        self._asked, asked = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(limit, jitter_seconds, answer_seconds, theirs, asked), daemon=True
        )
        self._process.start()
        self.port = ready.recv()

    def facts(self):
        """Return how many calls were served and refused since the last time, and when the first and the last came."""
        self._asked.send("facts")
        return self._asked.recv()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.terminate()
        self._process.join()

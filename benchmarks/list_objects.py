"""How long does it take to list a bucket whose prefixes are very uneven?

The store is a stand-in: it has a sorted list of keys, and answers each request for a page of them after some
milliseconds, as S3 does. Keys have the form ``logs/p07/000123``: of 100 prefixes one has half of all, the next half of
the rest, and so on.

The run of the claims is

    python benchmarks/list_objects.py --keys 200000 --latency 150
"""

import bisect
import multiprocessing
import random
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

from harness import Bench

from sdf import LiveRunner, StagedRunner, run_sdf
from sdf.io import ListObjects, MatchFiles

SLOTS = 8
PREFIXES = 100
ENTRY = (
    "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;{:032x}&quot;</ETag>"
    "<Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


def keys_of(count):
    """Return so many keys, in order; each prefix has at least one."""
    order = random.Random(7).sample(range(PREFIXES), PREFIXES)
    left, keys = count - PREFIXES, []
    for place, prefix in enumerate(order):
        many = 1 + (left // 2 if place < PREFIXES - 1 else left)
        left -= many - 1
        keys += [f"logs/p{prefix:02}/{number:06}" for number in range(many)]
    return sorted(keys)


def serve(keys, latency_seconds, port):
    """Answer requests for pages of keys, and nothing else; put the port into ``port``."""
    entries = [ENTRY.format(quote(key), number) for number, key in enumerate(keys)]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *given):
            pass

        def do_HEAD(self):  # is there an object of this name? None has that of the directory
            self.send_response(404)
            self.end_headers()

        def do_GET(self):
            asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            assert asked["list-type"] == "2", asked
            prefix, after = asked.get("prefix", ""), asked.get("start-after", asked.get("continuation-token", ""))
            begin = max(bisect.bisect_right(keys, after), bisect.bisect_left(keys, prefix))
            end = min(begin + int(asked.get("max-keys", 1000)), bisect.bisect_left(keys, prefix + "\x7f"))
            more = end < len(keys) and keys[end].startswith(prefix)
            token = f"<NextContinuationToken>{keys[end - 1]}</NextContinuationToken>" if more else ""
            body = (
                f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
                f"<EncodingType>url</EncodingType>{''.join(entries[begin:end])}</ListBucketResult>"
            ).encode()
            time.sleep(latency_seconds)
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    port.put(server.server_port)
    server.serve_forever()


def start_python(_):
    """Start Python in each slot, and import what listing needs."""
    import s3fs  # noqa: F401

    time.sleep(0.2)


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--keys", 200_000, quick=5_000)
    bench.option("--latency", 150, quick=20, help="milliseconds")
    given = bench.begin()
    keys, port = keys_of(given.keys), multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(keys, given.latency / 1000, port), daemon=True)
    server.start()
    options = {
        "endpoint_url": f"http://127.0.0.1:{port.get()}",
        "key": "key",
        "secret": "secret",
        "client_kwargs": {"region_name": "us-east-1"},
    }
    sc = bench.spark(SLOTS)
    bucket = sc.parallelize(["s3://bucket/logs"], 1)
    sc.parallelize(range(4 * SLOTS), 4 * SLOTS).foreach(start_python)
    table = bench.table(
        f"{given.keys:,} keys, {given.latency} ms for each page of 1,000, {SLOTS} slots",
        {"way": "{}", "s": "{:.2f}", "keys a second": "{:,.0f}", "times one lane": "{:.1f}"},
    )

    def listed(fn, runner):
        began = time.perf_counter()
        found = run_sdf(bucket, fn, runner=runner, progress=False)
        paths = found.map(lambda file: file.path).collect()
        seconds = time.perf_counter() - began
        assert sorted(paths) == [f"s3://bucket/{key}" for key in keys]
        return seconds

    ways = {
        "s3fs find(), as MatchFiles calls it": (MatchFiles, LiveRunner(lanes=1)),
        "ListObjects, one lane": (ListObjects, LiveRunner(lanes=1)),
        "ListObjects, LiveRunner": (ListObjects, LiveRunner()),
        "ListObjects, StagedRunner": (ListObjects, StagedRunner()),
    }
    for _ in range(given.rounds):
        taken = {way: listed(fn(storage_options=options), runner) for way, (fn, runner) in ways.items()}
        one = taken["ListObjects, one lane"]
        find = taken["s3fs find(), as MatchFiles calls it"]
        for way, seconds in taken.items():
            table.row(way, seconds, given.keys / seconds, one / seconds)
    live = taken["ListObjects, LiveRunner"]
    bench.claim("listing: times as fast as s3fs find(), on 8 slots", find / live, at_least=4)
    bench.note(f"Beside one lane of the same code it is {one / live:.1f} times as fast.")
    server.terminate()
    bench.end()


if __name__ == "__main__":
    main()

"""Files on servers: one that speaks S3, and one that speaks HTTP, with and without ranges; both on loopback."""

import bz2
import contextlib
import email.utils
import gzip
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest
from fsspec.registry import known_implementations
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from sdf import run_direct
from sdf.errors import MissingExtraError, SdfError, SourceChangedError, SourceError
from sdf.io import FileBlock, FileBlocks, FileInfo, ListObjects, MatchFiles, ReadLines
from sdf.testing import check_dofn

LINES = [f"line {number:06}" for number in range(30_000)]
DATA = "\n".join(LINES).encode()
BIG = b"0123456789abcde\n" * (1 << 20)  # 16 MiB


@contextlib.contextmanager
def served(server):
    """Serve in a thread, and leave nothing behind."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# S3


class Quiet(WSGIRequestHandler):
    def log(self, *args):
        pass


class S3:
    """A bucket, what reaches it, how many bytes it has sent, and method and path of each request."""

    def __init__(self, port):
        self.options = {
            "key": "key",
            "secret": "secret",
            "endpoint_url": f"http://127.0.0.1:{port}",
            "client_kwargs": {"region_name": "us-east-1"},
        }
        self.sent = 0
        self.asked = []
        self.fs = fsspec.filesystem("s3", **self.options)

    def put(self, name, data):
        self.fs.pipe(f"bucket/{name}", data)

    def match(self, element, **options):
        return run_direct([element], MatchFiles(storage_options=self.options, **options))

    def names(self, element, **options):
        return [file.path.removeprefix("s3://bucket/") for file in self.match(element, **options)]

    def read(self, *elements, **options):
        return run_direct(elements, ReadLines(storage_options=self.options, **options))


@pytest.fixture(scope="module")
def s3_server():
    app = DomainDispatcherApplication(create_backend_app)
    made = []

    def counting(environ, start_response):
        if made:
            made[0].asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        for chunk in app(environ, start_response):
            if made:
                made[0].sent += len(chunk)
            yield chunk

    server = make_server("127.0.0.1", 0, counting, threaded=True, request_handler=Quiet)
    with served(server):
        made.append(S3(server.port))
        made[0].fs.call_s3("create_bucket", Bucket="bucket")
        yield made[0]


@pytest.fixture
def s3(s3_server):
    """An empty bucket."""
    yield s3_server
    s3_server.fs.invalidate_cache()
    for path in s3_server.fs.find("bucket"):
        s3_server.fs.call_s3("delete_object", Bucket="bucket", Key=path.removeprefix("bucket/"))


def test_lines_of_all_objects_below_a_prefix(s3):
    """Listed, cut into blocks, read block by block in any order."""
    for name in ("logs/a.txt", "logs/b/c.txt", "logs/_SUCCESS", "other/d.txt"):
        s3.put(name, DATA + name.encode())
    files = s3.match("s3://bucket/logs")
    assert [file.path for file in files] == ["s3://bucket/logs/a.txt", "s3://bucket/logs/b/c.txt"]
    blocks = run_direct(files, FileBlocks(100_000))
    assert len(blocks) == 8
    found = run_direct(blocks, ReadLines(storage_options=s3.options), split_every=1, seed=1)
    ends = [f"{LINES[-1]}{name}" for name in ("logs/a.txt", "logs/b/c.txt")]
    assert sorted(found) == sorted(LINES[:-1] * 2 + ends)


def test_every_split_of_an_object(s3):
    """Paths are elements as files are."""
    s3.put("f.txt", b"ab\ncde\nf\n\nghij\r\nk")
    check_dofn(ReadLines(storage_options=s3.options, with_position=True, block_size=5), "s3://bucket/f.txt")


@pytest.mark.parametrize(
    ("element", "options", "expected"),
    [
        ("s3://bucket/d", {}, ["d/a.txt", "d/e/b.txt"]),
        ("s3://bucket/d/", {"recursive": False}, ["d/a.txt"]),
        ("s3://bucket/d/*.txt", {}, ["d/a.txt"]),
        ("s3://bucket/**/*.txt", {}, ["d/a.txt", "d/e/b.txt", "x/a b.txt", "x/a?.txt", "x/a[1].txt", "x/ä#.txt"]),
        ("s3://bucket/x/a[1].txt", {}, ["x/a[1].txt"]),
        ("s3://bucket/x/a?.txt", {}, ["x/a?.txt"]),
        ("s3://bucket/d/e/b.txt", {}, ["d/e/b.txt"]),
        ("s3://bucket/d/_tmp", {}, ["d/_tmp/c.txt"]),
        ("s3://bucket/none*", {"missing_ok": True}, []),
    ],
)
def test_what_an_element_names_in_a_bucket(s3, element, options, expected):
    """As on a disk."""
    for name in ("d/a.txt", "d/e/b.txt", "d/_tmp/c.txt", "x/a[1].txt", "x/a b.txt", "x/ä#.txt", "x/a?.txt"):
        s3.put(name, name.encode())
    assert s3.names(element, **options) == expected
    assert s3.read(*s3.match(element, **options)) == expected


@pytest.mark.parametrize(
    ("element", "options", "expected"),
    [
        ("s3://bucket/m", {}, ["m/f", "m/n/in", "m/obj", "m/obj/in"]),
        ("s3://bucket/m/", {}, ["m/f", "m/n/in", "m/obj", "m/obj/in"]),
        ("s3://bucket/m", {"recursive": False}, ["m/f", "m/obj"]),
        ("s3://bucket/m/*", {}, ["m/f", "m/obj"]),
        ("s3://bucket/m/**", {}, ["m/f", "m/n/in", "m/obj", "m/obj/in"]),
        ("s3://bucket/m/*/*", {}, ["m/n/in", "m/obj/in"]),
        ("s3://bucket/*/o*", {}, ["m/obj"]),
        ("s3://bucket/m/obj", {}, ["m/obj"]),
        ("s3://bucket/m/obj/", {}, ["m/obj/in"]),
        ("s3://bucket/c::d", {}, ["c::d"]),
        ("s3://bucket/c::*", {}, ["c::d", "c::e::f"]),
        ("s3://bucket/c*", {}, ["c::d", "c::e::f"]),
        ("s3://bucket/e::g", {}, ["e::g/h"]),
        ("s3://bucket/e::g/*", {}, ["e::g/h"]),
        ("s3://bucket/z.gz::y", {}, ["z.gz::y"]),
    ],
)
def test_objects_below_and_beside_a_directory_of_their_name(s3, element, options, expected):
    """A store has no directories: any text may be a key. What stands for a directory is no file."""
    for name in ("m/", "m/f", "m/n/", "m/n/in", "m/obj", "m/obj/in", "c::d", "c::e::f", "e::g/h", "z.gz::y"):
        s3.put(name, b"" if name.endswith("/") else name.encode())
    assert s3.names(element, **options) == expected
    assert s3.read(*s3.match(element, **options)) == expected


ODD = [
    "a//b",
    "c ",
    " c",
    "d%2Fe",
    "d%20e",
    "f?g",
    "h#i",
    "j*k",
    "l[1]",
    "m[",
    "n/.",
    "o/..",
    "./p",
    "../q",
    "r+s",
    "{t}",
    "~",
]


@pytest.mark.parametrize("name", [*ODD, "w\\x", "y::z", "a:b", "A&B=C", "file://x", "s3://bucket/x", "t\t"])
def test_any_text_may_be_part_of_a_key(s3, name):
    """It is neither a pattern nor a path that somebody makes shorter, and no other object is read for it."""
    keys = [f"{name}/in", f"{name}/in .", f"{name}2/in", name.replace("%2F", "/").replace("%20", " ") + "3"]
    for key in keys:
        s3.fs.call_s3("put_object", Bucket="bucket", Key=key, Body=key.encode())
    for element in (f"s3://bucket/{name}", f"s3://bucket/{name}/"):
        listed = run_direct([element], ListObjects(storage_options=s3.options, hidden=True))
        assert s3.read(*listed) == s3.read(*s3.match(element, hidden=True)) == keys[:2]
    assert s3.read(*(f"s3://bucket/{key}" for key in keys)) == keys


@pytest.mark.parametrize("element", ["s3://bucket//a", "s3://bucket//a/", "s3://bucket//*", "s3://bucket//a/**"])
def test_keys_that_begin_with_a_slash_are_not_listed_in_silence(s3, element):
    """The client would list other keys, or none. A single one can be read, and ListObjects lists them."""
    s3.fs.call_s3("put_object", Bucket="bucket", Key="/a/in", Body=b"in")
    with pytest.raises(SourceError, match=f"MatchFiles: {re.escape(repr(element))} names keys that begin with '/'"):
        s3.names(element, missing_ok=True)
    assert s3.read("s3://bucket//a/in") == s3.read(*s3.match("s3://bucket")) == ["in"]
    assert s3.read(*run_direct(["s3://bucket//a"], ListObjects(storage_options=s3.options))) == ["in"]


def test_an_object_takes_one_request(s3):
    """That for its bytes: the listing has told all else. An object that nobody listed is looked at once."""
    s3.put("a.txt", b"a")
    s3.put("b.txt", b"b")
    files = s3.match("s3://bucket")
    s3.asked.clear()
    assert s3.read(*files) == ["a", "b"]
    assert s3.asked == [("GET", "/bucket/a.txt"), ("GET", "/bucket/b.txt")]
    s3.asked.clear()
    assert s3.read("s3://bucket/a.txt") == ["a"]
    assert s3.asked == [("HEAD", "/bucket/a.txt"), ("GET", "/bucket/a.txt")]


def test_gzip_with_its_index_beside_it_in_the_bucket(s3):
    """The index is made once, and found there."""
    pytest.importorskip("rapidgzip")
    s3.put("packed/lines.gz", gzip.compress(DATA, mtime=0))
    for _ in range(2):
        read = s3.read("s3://bucket/packed/lines.gz", block_size=40_000, index_dir="s3://bucket/indices")
        assert sorted(read) == LINES
    assert len(s3.fs.ls("s3://bucket/indices", refresh=True)) == 1


@pytest.mark.parametrize("element", ["s3://bucket/none", "s3://bucket/none/*.txt", "s3://nobucket/a"])
def test_an_element_that_names_no_object_is_an_error(s3, element):
    """As on a disk."""
    with pytest.raises(SourceError, match=re.escape(f"MatchFiles: {element!r} names no file.")):
        s3.match(element)


def test_an_object_that_is_not_there_is_an_error(s3):
    """As on a disk."""
    with pytest.raises(SourceError, match="ReadLines: there is no file 's3://bucket/none'"):
        s3.read("s3://bucket/none")


def test_objects_that_are_new_since_the_last_listing_are_found(s3):
    """The file system keeps listings, and is told to forget them."""
    s3.put("d/a", b"1")
    assert s3.names("s3://bucket/d") == ["d/a"]
    fsspec.filesystem("s3", **s3.options).call_s3("put_object", Bucket="bucket", Key="d/b", Body=b"2")
    assert s3.names("s3://bucket/d") == ["d/a", "d/b"]
    assert s3.read("s3://bucket/d/b") == ["2"]


def overwrite(s3, data):
    """Put another object in the place of one, behind the back of all caches."""
    s3.fs.call_s3("put_object", Bucket="bucket", Key="f.txt", Body=data)


CHANGES = [
    (lambda s3: overwrite(s3, DATA.replace(b"line", b"LINE")), "was replaced: it was "),
    (lambda s3: overwrite(s3, DATA + b"more"), "was replaced: it was "),
    (lambda s3: overwrite(s3, DATA[:-1]), f"has shrunk from {len(DATA)} to {len(DATA) - 1} bytes"),
    (lambda s3: s3.fs.call_s3("delete_object", Bucket="bucket", Key="f.txt"), f"has gone; it had {len(DATA)} bytes"),
]
CHANGE = pytest.mark.parametrize(("change", "message"), CHANGES, ids=["replaced", "longer", "shorter", "gone"])


@CHANGE
def test_an_object_that_changes_before_it_is_read_is_an_error(s3, change, message):
    """Its entity tag tells, whatever was listed before."""
    s3.put("f.txt", DATA)
    files = s3.match("s3://bucket/f.txt") + s3.match("s3://bucket/*")
    change(s3)
    for file in files:
        with pytest.raises(SourceChangedError, match=re.escape(f"s3://bucket/f.txt {message}")):
            s3.read(file)


@CHANGE
def test_an_object_that_changes_while_it_is_read_is_an_error(s3, change, message):
    """Once more of it is asked for."""
    s3.put("f.txt", BIG)
    for block_size in (None, 5 << 20):
        with pytest.raises(SourceChangedError, match=re.escape("s3://bucket/f.txt ")):
            run_direct(["s3://bucket/f.txt"], ChangingFn(change, s3, block_size=block_size))
        s3.put("f.txt", BIG)


@CHANGE
def test_an_object_that_changes_once_all_of_it_is_here_is_the_one_that_was_pinned(s3, change, message):
    """Each request had its entity tag as a condition."""
    s3.put("f.txt", DATA)
    assert run_direct(["s3://bucket/f.txt"], ChangingFn(change, s3)) == LINES


class ChangingFn(ReadLines):
    """Reads lines; when it has the first of them, something happens to their object."""

    def __init__(self, change, s3, **options):
        super().__init__(storage_options=s3.options, **options)
        self.change, self.s3, self.changed = change, s3, False

    def records(self, path, offset, data):
        if not self.changed:
            self.changed = True
            self.change(self.s3)
        return super().records(path, offset, data)


def test_a_part_of_an_object_does_not_bring_all_of_it(s3):
    """But what is read ahead."""
    s3.put("big.txt", BIG)
    file = s3.match("s3://bucket/big.txt")[0]
    for start in (0, 4 << 20, 15 << 20):
        s3.sent = 0
        assert len(s3.read(FileBlock(file, start, start + (1 << 16)))) == 1 << 12
        assert s3.sent < 9 << 20


def test_all_parts_of_an_object_bring_it_about_once(s3):
    """The parts of one worker follow each other; each opens the object anew."""
    s3.put("big.txt", BIG)
    s3.sent = 0
    assert len(s3.read("s3://bucket/big.txt", encoding=None)) == 1 << 20
    assert s3.sent < 1.2 * len(BIG)


# HTTP


class Handler(BaseHTTPRequestHandler):
    """Serves ``server.files``, in the manner that ``server.manner`` says."""

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        if "no head" in self.server.manner:
            self.send_error(405)
        else:
            self.answer(body=False)

    def do_GET(self):
        self.server.requests.append(self.headers.get("Range"))
        self.answer(body=True)

    def answer(self, body):
        manner = self.server.manner
        if "forbidden" in manner:
            self.send_error(403)
            return
        data = self.server.files.get(urllib.parse.unquote(self.path))
        if data is None:
            self.send_error(404)
            return
        whole, asked = data, self.headers.get("Range")
        ranged = "ranges" in manner and asked is not None
        if ranged:
            start, stop = re.fullmatch(r"bytes=(\d+)-(\d*)", asked).groups()
            data = whole[int(start) : int(stop) + 1 if stop else len(whole)]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{int(start) + len(data) - 1}/{len(whole)}")
        else:
            self.send_response(200)
        if "refuses" in manner:
            self.send_header("Accept-Ranges", "none")
        if "tag" in manner:
            self.send_header("ETag", f'"{hash(whole):x}"')
        if "time" in manner:
            self.send_header("Last-Modified", email.utils.formatdate(self.server.mtime, usegmt=True))
        if "no length" not in manner:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            with contextlib.suppress(ConnectionError):  # who asked has enough
                for at in range(0, len(data), 1 << 16):
                    self.wfile.write(data[at : at + (1 << 16)])
                    self.server.sent += len(data[at : at + (1 << 16)])


@pytest.fixture
def http():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files = {"/f.txt": DATA, "/big.txt": BIG, "/empty.txt": b""}
    server.manner, server.sent, server.mtime, server.requests = {"ranges", "tag"}, 0, 1_700_000_000, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    with served(server):
        yield server


def test_every_line_through_ranges(http):
    """In one piece, in blocks, and split at every claim."""
    url = f"{http.url}/f.txt"
    assert run_direct([url], ReadLines()) == LINES
    assert sorted(run_direct([url], ReadLines(block_size=40_000), split_every=1, seed=2)) == LINES
    assert run_direct(run_direct([url], FileBlocks(100_000)), ReadLines()) == LINES
    assert run_direct([f"{http.url}/empty.txt"], ReadLines()) == []


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_compressed_lines_through_ranges(http, tmp_path, suffix):
    """In blocks and split at every claim; of plain gzip with an index on this machine."""
    pytest.importorskip("rapidgzip")
    http.files = {f"/f{suffix}": gzip.compress(DATA, mtime=0) if suffix == ".gz" else bz2.compress(DATA)}
    reader = ReadLines(index_dir=str(tmp_path), block_size=40_000)
    for _ in range(2):
        assert sorted(run_direct([f"{http.url}/f{suffix}"], reader, split_every=1, seed=2)) == LINES


@pytest.mark.parametrize("name", ["f.txt", "a b.txt", "a[1].txt", "a?b=c*", "ä.txt"])
def test_a_url_names_one_file(http, name):
    """Whatever is in it; it is looked up, not read, to be listed."""
    http.files = {f"/{name}": DATA}
    files = run_direct([f"{http.url}/{name}"], MatchFiles())
    assert [(file.path, file.size) for file in files] == [(f"{http.url}/{name}", len(DATA))]
    assert http.sent == 0
    assert run_direct(files, ReadLines()) == LINES


def test_a_part_of_a_file_on_a_web_server_does_not_bring_all_of_it(http):
    """But what is read ahead."""
    file = run_direct([f"{http.url}/big.txt"], MatchFiles())[0]
    for start in (0, 4 << 20, 15 << 20):
        http.sent = 0
        assert len(run_direct([FileBlock(file, start, start + (1 << 16))], ReadLines())) == 1 << 12
        assert http.sent < 9 << 20


OTHER_SIZES = pytest.mark.slow("the same test with other sizes of blocks")


@pytest.mark.parametrize(
    "manner",
    [
        {"tag"},
        {"time"},
        {"tag", "refuses"},
        {"no head", "tag"},
        {"no head", "ranges"},
        {"no length", "ranges"},
        {"no length"},
        {"ranges", "refuses"},
    ],
    ids=lambda manner: " ".join(sorted(manner)),
)
@pytest.mark.parametrize(
    ("name", "block_size"),
    [
        *[("f.txt", None), ("f.txt", 100_000), ("big.txt", None), ("big.txt", 5 << 20)],
        *(pytest.param(*case, marks=OTHER_SIZES) for case in (("f.txt", 5 << 20), ("big.txt", 100_000))),
    ],
)
def test_a_server_without_ranges_gives_the_right_lines_or_an_error(http, manner, name, block_size):
    """Never others: the error says what is missing."""
    http.manner = manner
    expected = http.files[f"/{name}"].decode().splitlines()
    outcome = outcome_of(lambda: run_direct([f"{http.url}/{name}"], ReadLines(block_size=block_size)))
    refusals = "range requests|does not say how large|Cannot seek streaming HTTP file"
    assert outcome == expected or re.search(refusals, str(outcome))


def outcome_of(call):
    """Return what a call returns, or the error of sdf that it raises."""
    try:
        return call()
    except SdfError as error:
        return error


@pytest.mark.parametrize("manner", [{"tag"}, {"tag", "refuses"}])
def test_without_ranges_a_file_can_be_read_in_one_piece(http, manner):
    """From the start to the end; a server may say that it has none, or just send all."""
    http.manner = manner
    assert run_direct([f"{http.url}/f.txt"], ReadLines()) == LINES


def test_a_server_that_does_not_tell_the_size_is_named(http):
    """Nothing would say where a part ends."""
    http.manner = {"no length"}
    for fn in (ReadLines(), MatchFiles(), FileBlocks(10)):
        with pytest.raises(SourceError, match=re.escape(f"the server of '{http.url}/f.txt' does not say how large")):
            run_direct([f"{http.url}/f.txt"], fn)


@pytest.mark.parametrize(
    ("manner", "change", "message"),
    [
        ({"ranges", "tag"}, lambda http: http.files.update({"/f.txt": DATA[::-1]}), "was replaced: it was "),
        ({"ranges"}, lambda http: http.files.update({"/f.txt": DATA[:-1]}), "has shrunk from "),
        ({"ranges", "time"}, lambda http: setattr(http, "mtime", 1_700_000_001), "was written again: mtime was "),
        ({"ranges"}, lambda http: http.files.clear(), "has gone; it had "),
    ],
    ids=["tag", "size", "time", "gone"],
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_changes_on_a_web_server_is_an_error(http, manner, change, message, when):
    """By its tag, its size or its time; before it is read, and while it is."""

    class ChangingFn(ReadLines):
        changed = False

        def records(self, path, offset, data):
            if when == "meanwhile" and not self.changed:
                self.changed = True
                change(http)
            return super().records(path, offset, data)

    http.manner = manner
    file = run_direct([f"{http.url}/f.txt"], MatchFiles())[0]
    if when == "before":
        change(http)
    with pytest.raises(SourceChangedError, match=re.escape(f"{http.url}/f.txt {message}")):
        run_direct([file], ChangingFn())


def test_a_url_of_nothing_is_an_error(http):
    """As on a disk."""
    with pytest.raises(SourceError, match=re.escape(f"there is no file '{http.url}/none'")):
        run_direct([f"{http.url}/none"], ReadLines())
    with pytest.raises(SourceError, match=re.escape(f"MatchFiles: '{http.url}/none' names no file")):
        run_direct([f"{http.url}/none"], MatchFiles())


def test_a_page_of_links_is_a_directory(http):
    """Of a path that ends in a slash, as web servers have it."""
    page = "".join(f'<a href="{name}">{name}</a>' for name in ("a.txt", "b.txt", "sub/"))
    http.files = {"/d/": page.encode(), "/d/a.txt": b"1\n", "/d/b.txt": b"2\n", "/d/sub/": b""}
    files = run_direct([f"{http.url}/d/"], MatchFiles())
    assert [file.path for file in files] == [f"{http.url}/d/a.txt", f"{http.url}/d/b.txt"]
    assert run_direct(files, ReadLines()) == ["1", "2"]


@pytest.mark.parametrize("fn", [ReadLines(), MatchFiles(missing_ok=True)], ids=["ReadLines", "MatchFiles"])
def test_a_protocol_that_nobody_knows_is_an_error(fn):
    """The message names the path."""
    with pytest.raises(SourceError, match="cannot reach 'nosuch://a': ValueError: Protocol not known: nosuch"):
        run_direct(["nosuch://a"], fn)


def test_a_file_system_whose_library_is_missing_is_an_error(monkeypatch):
    """The message names the path and the library."""
    known = {"class": "no_such_library.FileSystem", "err": "Install no_such_library"}
    monkeypatch.setitem(known_implementations, "missinglib", known)
    with pytest.raises(MissingExtraError, match=r"ReadLines needs a library for 'missinglib://a' .*no_such_library"):
        run_direct(["missinglib://a"], ReadLines())


@pytest.mark.parametrize("fn", [ReadLines(), MatchFiles(missing_ok=True)], ids=["ReadLines", "MatchFiles"])
def test_a_server_that_does_not_answer_is_not_one_without_the_file(fn):
    """Nobody knows whether it is there."""
    with pytest.raises(SourceError, match=r"cannot reach 'http://127.0.0.1:1/x': ClientConnectorError: Cannot connect"):
        run_direct(["http://127.0.0.1:1/x"], fn)


def test_a_server_that_refuses_is_not_one_without_the_file(http):
    """The message has its answer."""
    http.manner = {"forbidden"}
    with pytest.raises(SourceError, match=re.escape(f"cannot reach '{http.url}/f.txt': ClientResponseError: 403")):
        run_direct([f"{http.url}/f.txt"], ReadLines())


def test_a_file_whose_server_stops_answering_has_not_gone(http):
    """It may be there when the part runs again."""
    file = run_direct([f"{http.url}/f.txt"], MatchFiles())[0]
    http.manner = {"forbidden"}
    with pytest.raises(SourceError, match="a reader cannot reach") as raised:
        run_direct([file], ReadLines())
    assert not isinstance(raised.value, SourceChangedError)


def test_a_server_without_ranges_is_named(http):
    """And nothing is advised that readers do not have."""
    http.manner = {"tag"}
    file = FileInfo(f"{http.url}/big.txt", len(BIG))
    message = f"the server of '{http.url}/big.txt' does not answer range requests"
    with pytest.raises(SourceError, match=re.escape(message)) as raised:
        run_direct([FileBlock(file, 12 << 20, 13 << 20)], ReadLines())
    assert "block_size=0" not in str(raised.value)

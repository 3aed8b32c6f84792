"""What a node gets of peers when some are hostile, broken or slow: real HTTP on loopback, an address for each peer."""

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from image import release as build
from image.architecture import AMD64
from meshsec_update import download, fetch, machine, offer, store
from meshsec_update.machine import Image, RefusedError
from tests.lab.machines.image_versions import make_key

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed: tools/setup system")

RUNNING, NEWER = Image("1.0.0.20260101000000", "x86-64"), "1.1.0.20260101000000"
UUID = "11111111-2222-3333-4444-555555555555"
ROOT, KERNEL = build.root_name(NEWER, UUID, AMD64), build.kernel_name(NEWER, AMD64)
SIZE = 300_000
LARGEST = 2 * SIZE
"""As a slot of the disk: larger than an update."""

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


class _Honest(offer.Server):
    address_family = socket.AF_INET

    def handle_error(self, *_: object) -> None:
        """Say nothing of a node that hangs up."""


class _Hostile(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of a node that hangs up."""


class Mesh:
    """A node and its peers, the first of which is the nearest."""

    def __init__(self, directory: Path, key: Path, stack: ExitStack, port: int) -> None:
        self.offered, self.folder = directory / "offered", directory / "fetched"
        self._keyring, self._stack, self._port = directory / "keyring.gpg", stack, port
        self._peers: list[dict[str, Any]] = []
        contents = {ROOT: directory / "r", KERNEL: directory / "k"}
        contents[ROOT].write_bytes(os.urandom(SIZE))
        contents[KERNEL].write_bytes(os.urandom(1000))
        with build.key(key) as signer:
            assert signer is not None
            self._keyring.write_bytes(signer.public)
            build.make_update(contents, self.offered, signer)
        self.asked: list[tuple[str, str]] = []
        """The peer and the range of each request for the root."""

    @property
    def target(self) -> Path:
        """Where the version that is offered comes to."""
        return self.folder / NEWER

    @property
    def root(self) -> bytes:
        """What the file is that hostile peers spoil."""
        return (self.offered / ROOT).read_bytes()

    def add_honest(self, name: str) -> None:
        """Add a peer that runs the program itself."""
        address = self._address(name)
        self._serve(_Honest(address, lambda: store.of_directory(self.offered), self._port))  # type: ignore[arg-type]

    def add_hostile(self, name: str, answer: Answer) -> None:
        """Add a peer that has the right signature, and answers so when it is asked for the root."""
        offered, root, asked = self.offered, self.root, self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                wanted = self.path.removeprefix("/")
                if wanted == ROOT:
                    asked.append((name, self.headers.get("Range", "")))
                    with suppress(OSError):
                        answer(self, root)
                    self.close_connection = True
                    return
                content = (offered / wanted).read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._serve(_Hostile((str(self._address(name)), self._port), Handler))

    def fetch(self) -> Path | None:
        """Let the node look for an update."""
        return fetch.fetch({"peers": self._peers}, RUNNING, self.folder, LARGEST, self._keyring)

    def has_all(self) -> bool:
        """Return whether the node has the update and nothing else."""
        names = {path.name for path in self.target.iterdir()}
        whole = (self.target / ROOT).read_bytes() == self.root
        return whole and names == {ROOT, KERNEL, "SHA256SUMS", "SHA256SUMS.gpg"}

    def _address(self, name: str) -> IPv4Address:
        address = IPv4Address("127.0.0.1") + len(self._peers)
        self._peers.append({"name": name, "state": "protected", "address": str(address), "hops": 1})
        return address

    def _serve(self, server: ThreadingHTTPServer) -> None:
        self._stack.enter_context(_serving(server))


@contextmanager
def _serving(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the key that the node trusts."""
    return make_key(tmp_path_factory.mktemp("key"))


@pytest.fixture
def mesh(key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    """Make an update and no peer yet."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setattr(download, "PORT", port)
    monkeypatch.setattr(machine, "KERNELS", tmp_path / "none")
    monkeypatch.setattr(offer._Handler, "log_message", lambda *_: None)
    with ExitStack() as stack:
        yield Mesh(tmp_path, key, stack, port)


def _head(handler: BaseHTTPRequestHandler, status: int, **headers: object) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()


def _flood(handler: BaseHTTPRequestHandler, root: bytes) -> None:
    _head(handler, 200, Content_Length=SIZE, Transfer_Encoding="chunked")
    for _ in range(20 * SIZE // 1000):
        handler.wfile.write(b"3e8\r\n" + bytes(1000) + b"\r\n")
    handler.wfile.write(b"0\r\n\r\n")


def _without_length(handler: BaseHTTPRequestHandler, root: bytes) -> None:
    _head(handler, 200, Connection="close")
    for _ in range(20):
        handler.wfile.write(bytes(SIZE))


def _garbage(handler: BaseHTTPRequestHandler, root: bytes) -> None:
    start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
    _head(handler, 206 if start else 200, Content_Length=len(root) - start)
    handler.wfile.write(bytes(len(root) - start))


def _half_garbage(handler: BaseHTTPRequestHandler, root: bytes) -> None:
    _head(handler, 200, Content_Length=len(root))
    handler.wfile.write(bytes(len(root) // 2))


def _too_much(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
    _head(handler, 206 if start else 200, Content_Length=LARGEST - start)
    handler.wfile.write(bytes(LARGEST - start))


def _trickle(handler: BaseHTTPRequestHandler, root: bytes) -> None:
    _head(handler, 200, Content_Length=len(root))
    for at in range(len(root)):
        handler.wfile.write(root[at : at + 1])
        time.sleep(0.05)


def _trickle_head(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    while True:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def _never(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    _head(handler, 416, Content_Length=0)


def _bytes_there(mesh: Mesh) -> int:
    return sum(path.stat().st_size for path in mesh.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("flood", [_flood, _without_length])
def test_a_peer_without_an_end_fills_no_disk(mesh: Mesh, flood: Answer) -> None:
    mesh.add_hostile("a", flood)
    with pytest.raises(RefusedError, match=r"a: .*the peer does not say how many bytes it sends"):
        mesh.fetch()
    assert _bytes_there(mesh) < 10_000
    mesh.add_honest("b")
    assert mesh.fetch() == mesh.target
    assert mesh.has_all()


@pytest.mark.parametrize("size", [SIZE + 1, SIZE // 2])
def test_a_wrong_part_is_removed_and_the_same_peer_asked_for_all(mesh: Mesh, size: int) -> None:
    """The real file is shorter than the part, or goes on otherwise."""
    mesh.target.mkdir(parents=True)
    (mesh.target / f"{ROOT}.part").write_bytes(bytes(size))
    mesh.add_honest("a")
    assert mesh.fetch() == mesh.target
    assert mesh.has_all()


def test_a_part_that_is_longer_than_a_slot_is_removed_unasked(mesh: Mesh) -> None:
    mesh.target.mkdir(parents=True)
    (mesh.target / f"{ROOT}.part").write_bytes(bytes(LARGEST + 1))
    mesh.add_honest("a")
    assert mesh.fetch() == mesh.target


@pytest.mark.parametrize("hostile", [_garbage, _half_garbage, _too_much, _never])
def test_garbage_of_one_peer_does_not_keep_the_next_from_giving_the_update(mesh: Mesh, hostile: Answer) -> None:
    mesh.add_hostile("a", hostile)
    mesh.add_honest("b")
    assert mesh.fetch() == mesh.target
    assert mesh.has_all()


def test_a_peer_whose_file_is_wrong_is_not_asked_again_and_nothing_of_it_stays(mesh: Mesh) -> None:
    mesh.add_hostile("a", _garbage)
    with pytest.raises(RefusedError, match=r"a: .*\.root: its 300000 bytes are not what was signed"):
        mesh.fetch()
    assert _bytes_there(mesh) < 10_000
    assert len(mesh.asked) == 1
    with pytest.raises(RefusedError, match=r"a: .*what this peer gave before was not what was signed"):
        mesh.fetch()
    assert len(mesh.asked) == 1


def test_a_peer_spoils_what_another_gave_only_once(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """The honest peer is slow and never gives all at once. The hostile one is asked first each time."""

    def spoil(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        _head(handler, 206 if start else 200, Content_Length=SIZE - start)
        handler.wfile.write(bytes(min(1000, SIZE - start)))

    def slow(handler: BaseHTTPRequestHandler, root: bytes) -> None:
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        _head(handler, 206 if start else 200, Content_Length=SIZE - start)
        handler.wfile.write(root[start : start + SIZE // 3])

    mesh.add_hostile("a", spoil)
    mesh.add_hostile("b", slow)
    for _ in range(8):
        try:
            assert mesh.fetch() == mesh.target
            break
        except RefusedError:
            continue
    assert mesh.has_all()


def test_a_slow_peer_is_left_for_the_next_one_which_goes_on(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_WINDOW_SECONDS", 0.3)
    monkeypatch.setattr(
        download, "_WINDOW_BYTES", 100
    )  # The honest one gives more at once, however busy this machine is.
    mesh.add_hostile("a", _trickle)
    mesh.add_honest("b")
    assert mesh.fetch() == mesh.target
    assert mesh.has_all()


def test_a_peer_has_limited_time_though_it_is_not_slow(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_PEER_SECONDS", 0.3)
    mesh.add_hostile("a", _trickle)
    with pytest.raises(RefusedError, match=r"a: .*not complete after 0 s; the next try goes on"):
        mesh.fetch()
    (part,) = mesh.target.glob("*.part")
    assert part.read_bytes() == mesh.root[: part.stat().st_size] != b""


def test_an_answer_that_never_begins_is_left(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_ANSWER_SECONDS", 2.0)
    mesh.add_hostile("a", _trickle_head)
    mesh.add_honest("b")
    assert mesh.fetch() == mesh.target


def test_an_older_version_removes_nothing_of_a_newer_one(mesh: Mesh) -> None:
    newer, older = mesh.folder / "1.2.0.20260101000000", mesh.folder / "1.0.5.20260101000000"
    for folder in (newer, older):
        folder.mkdir(parents=True)
    mesh.add_hostile("a", _half_garbage)
    with pytest.raises(RefusedError, match="bytes of"):
        mesh.fetch()
    assert (newer.exists(), older.exists()) == (True, False)
    mesh.add_honest("b")
    assert mesh.fetch() == mesh.target
    assert list(mesh.folder.iterdir()) == [mesh.target], "what is complete counts"


def test_an_older_version_of_a_peer_is_left_while_a_newer_one_waits_or_failed(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "KERNELS", tmp_path)
    mesh.add_hostile("a", _garbage)
    for kernel, why in (
        ("meshsec_1.2.0.20260101000000_x86-64+2-0.efi", "is older than 1.2.0.20260101000000, which waits"),
        ("meshsec_1.2.0.20260101000000_x86-64+0-2.efi", "is older than 1.2.0.20260101000000, which did not work"),
        (f"meshsec_{NEWER}_x86-64+0-1.efi", "is here already"),
    ):
        (tmp_path / kernel).write_bytes(b"kernel")
        assert mesh.fetch() is None
        assert why in capsys.readouterr().out
        (tmp_path / kernel).unlink()
    assert mesh.asked == []

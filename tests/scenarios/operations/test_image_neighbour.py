"""An update goes from peer to peer through protected channels, over each link once; a stranger gets nothing."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from image import release
from image.architecture import AMD64
from meshsec_update.offer import PORT
from tests.lab.basics.places import REPOSITORY
from tests.lab.lab import Lab
from tests.lab.machines.image_versions import make_key
from tests.lab.node.node import Node
from tests.scenarios.expectations import assert_nothing_clear, captured

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed: tools/setup system")

RUNNING, NEWER = "1.0.0.20260101000000", "1.1.0.20260101000000"
SIZE = 2 << 20
UUID = "11111111-2222-3333-4444-555555555555"
_SERVE = """
import sys
from ipaddress import IPv6Address
from pathlib import Path
from meshsec_update import offer, store
server = offer.Server(IPv6Address(sys.argv[1]), lambda: store.of_directory(Path(sys.argv[2])))
print("ready", flush=True)
server.serve_forever()
"""
_FETCH = """
import json, sys
from pathlib import Path
from meshsec_update import fetch
from meshsec_update.machine import Image, RefusedError
running, folder, keyring, largest = sys.argv[1:]
try:
    print(fetch.fetch(json.load(sys.stdin), Image(running, "x86-64"), Path(folder), int(largest), Path(keyring)))
except RefusedError as error:
    sys.exit(f"refused: {error}")
"""


class Updates:
    """An update, and the directory for what nodes fetch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = make_key(directory / "key")
        self.keyring = directory / "keyring.gpg"
        self.offered = directory / "offered"
        root, kernel = directory / "r", directory / "k"
        root.write_bytes(os.urandom(SIZE))
        kernel.write_bytes(os.urandom(1000))
        with release.key(self._key) as key:
            assert key is not None
            self.keyring.write_bytes(key.public)
            files = {release.root_name(NEWER, UUID, AMD64): root, release.kernel_name(NEWER, AMD64): kernel}
            release.make_update(files, self.offered, key)

    def fetched(self, node: Node) -> Path:
        """Return where a node puts an update."""
        return self.directory / f"at-{node.name}" / NEWER

    def fetch(
        self, node: Node, status: Mapping[str, Any] | None = None, largest: int = SIZE
    ) -> subprocess.CompletedProcess[str]:
        """Let a node fetch what its peers have."""
        argv = [RUNNING, self.fetched(node).parent, self.keyring, largest]
        said = json.dumps(status or _status(node))
        return node.run(*_python(_FETCH), *map(str, argv), stdin=said, check=False)


@pytest.fixture
def updates(tmp_path: Path) -> Updates:
    """Make an update."""
    return Updates(tmp_path)


@contextmanager
def offering(node: Node, directory: Path) -> Iterator[None]:
    """Let a node offer an update."""
    argv = ["ip", "netns", "exec", node.namespace, *_python(_SERVE), node.address, str(directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.kill()


def _python(program: str) -> list[str]:
    return ["env", f"PYTHONPATH={REPOSITORY / 'kernel-config'}", sys.executable, "-c", program]


def _status(node: Node) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(node.meshsec("status", "--json", check=False).stdout)
    return status


def _received(node: Node, peer: Node) -> int:
    (entry,) = [one for one in _status(node)["peers"] if one["name"] == peer.name]
    octets: int = entry["bytes_in"]
    return octets


def _wait_received(node: Node, peer: Node, octets: int) -> None:
    """Wait until more has come from the peer: the counters that are shown may be half a second old."""
    node.wait_for(f"more than {octets} octets of {peer.name}", lambda: _received(node, peer) > octets, 30)


def test_each_link_carries_an_update_once_and_nothing_is_in_the_clear(mesh: Lab, updates: Updates) -> None:
    a, b, c = (mesh[name] for name in "abc")
    before = {pair: _received(*pair) for pair in ((b, a), (c, a), (c, b))}
    with captured(mesh, "update") as captures, offering(a, updates.offered):
        assert updates.fetch(c).stdout.splitlines()[-1] == "None", "a is beyond b, which may get it, too"
        assert updates.fetch(b).stdout.splitlines()[-1] == str(updates.fetched(b))
        with offering(b, updates.fetched(b)):
            assert updates.fetch(c).stdout.splitlines()[-1] == str(updates.fetched(c))
        _wait_received(b, a, before[b, a] + SIZE)
        _wait_received(c, b, before[c, b] + SIZE)
        past_b = _received(c, a) - before[c, a]
    assert_nothing_clear(captures)
    for name in ("SHA256SUMS", release.root_name(NEWER, UUID, AMD64), release.kernel_name(NEWER, AMD64)):
        assert (updates.fetched(c) / name).read_bytes() == (updates.offered / name).read_bytes()
    assert past_b < SIZE / 20, "the link of a and b carries it once"


def test_a_farther_peer_gives_it_when_the_nearer_ones_do_not_take_it(mesh: Lab, updates: Updates) -> None:
    a, c = mesh["a"], mesh["c"]
    hours_ago = (updates.offered / "SHA256SUMS").stat().st_mtime - 2 * 3600
    os.utime(updates.offered / "SHA256SUMS", (hours_ago, hours_ago))
    with offering(a, updates.offered):
        assert updates.fetch(c).stdout.splitlines()[-1] == str(updates.fetched(c))


def test_a_download_goes_on_where_it_ended_and_a_spoiled_one_begins_again(mesh: Lab, updates: Updates) -> None:
    a, b = mesh["a"], mesh["b"]
    name = release.root_name(NEWER, UUID, AMD64)
    part, whole = updates.fetched(b) / f"{name}.part", (updates.offered / name).read_bytes()
    part.parent.mkdir(parents=True)
    part.write_bytes(whole[: SIZE * 3 // 4])
    before = _received(b, a)
    with offering(a, updates.offered):
        assert updates.fetch(b).stdout.splitlines()[-1] == str(updates.fetched(b))
        assert _received(b, a) - before < SIZE / 2
        (updates.fetched(b) / name).unlink()
        part.write_bytes(b"spoiled" + whole[7 : SIZE // 2])
        again = updates.fetch(b)
        assert "what was there is wrong and was removed" in again.stdout
        assert again.stdout.splitlines()[-1] == str(updates.fetched(b))
    assert (updates.fetched(b) / name).read_bytes() == whole


def test_a_file_that_is_too_large_is_not_fetched(mesh: Lab, updates: Updates) -> None:
    a, b = mesh["a"], mesh["b"]
    with offering(a, updates.offered):
        refused = updates.fetch(b, largest=SIZE - 1)
    assert f"has {SIZE} bytes; at most {SIZE - 1} fit" in refused.stderr
    assert not list(updates.fetched(b).glob("*.root*"))


def test_who_is_not_trusted_gets_nothing(mesh: Lab, updates: Updates) -> None:
    a, b = mesh["a"], mesh["b"]
    believed = _status(b)
    probe = f"import socket; socket.create_connection(({a.address!r}, {PORT}), 5)"
    with offering(a, updates.offered):
        assert b.run(sys.executable, "-c", probe).returncode == 0
        a.distrust(b)
        try:
            b.wait_for("the channel is gone", lambda: b.run(sys.executable, "-c", probe, check=False).returncode, 60.0)
            assert updates.fetch(b, believed).stdout.splitlines()[-1] == "None"
        finally:
            a.trust(b)
            mesh.wait_full_mesh()
    assert not updates.fetched(b).exists()

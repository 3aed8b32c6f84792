"""A lost node is harmless within a second: no file of it has a key, no process that knew one lives, its SAs end."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshsec.adapters.files import key_store
from tests.lab.basics.patience import patient
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities, libreswan
from tests.lab.node.node import Node
from tests.lab.node.options import Options

OPTIONS = Options(ipv4=True, overlay=capabilities.probe().tun, signatures="prefer")
SECOND_SECRET = "5a" * 32
LIMIT = 1.0
"""Seconds."""
IN_KERNEL = capabilities.probe().esp == "kernel"
"""Whether there are SAs in the kernel. A charon that hangs leaves them."""
HOLDERS = ("charon", "meshsecd", "overlayd", "signer")


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Start the nodes a - b - c, with all that holds keys."""
    with Lab("zeroize", line(names(3)), OPTIONS) as lab:
        lab.set_up().trust_all()
        given = lab["a"].directory / "given"
        given.write_text(SECOND_SECRET)
        lab["a"].meshsec("secret", "set", str(given))
        given.unlink()
        lab.start()
        lab.wait_full_mesh()
        yield lab


def secrets(node: Node) -> dict[str, bytes]:
    """Return what nobody may find, in the forms in which it may be kept."""
    key = key_store.load(node.var / "node.key")
    body = key.pkcs8_pem().splitlines()[1]
    return {"seed": key.seed(), "hexadecimal": key.seed().hex().encode(), "PEM": body, "second": SECOND_SECRET.encode()}


def found(node: Node, wanted: dict[str, bytes]) -> set[str]:
    """Return what is in any file of the node."""
    files = [path for place in (node.directory, node.run_directory) for path in place.rglob("*") if path.is_file()]
    contents = [path.read_bytes() for path in files]
    return {name for name, octets in wanted.items() if any(octets in content for content in contents)}


def in_memory(pids: list[int], wanted: bytes) -> list[int]:
    """Return the processes whose memory has these octets."""
    return [pid for pid in pids if any(wanted in portion for portion in _memory(pid))]


def _memory(pid: int) -> Iterator[bytes]:
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for mapping in Path(f"/proc/{pid}/maps").read_text().splitlines():
            extent, access, *_ = mapping.split()
            if access.startswith("rw"):
                first, end = (int(one, 16) for one in extent.split("-"))
                try:
                    memory.seek(first)
                    yield memory.read(end - first)
                except OSError:
                    continue


def test_within_a_second_nothing_of_a_lost_node_has_a_key_and_its_peers_are_without_it(lab: Lab) -> None:
    a, b, c = lab["a"], lab["b"], lab["c"]
    wanted = secrets(a)
    holders = [daemon for kind in HOLDERS if (daemon := a.daemons.get(kind))]
    pids = [daemon.pid for daemon in holders]
    # The negative case: the same search finds what is there.
    assert found(a, wanted) == {"PEM", "second"}
    assert in_memory(pids, wanted["seed"]), "no process shows the key: the search is no use"
    others = found(b, secrets(b)) | found(c, secrets(c))
    began = time.monotonic()
    done = a.meshsec("zeroize", "--yes-destroy-keys")
    took = time.monotonic() - began
    assert (done.returncode, done.stderr) == (0, "")
    print(f"zeroize took {took:.2f} s")
    assert took < patient(LIMIT), f"{took:.2f} s"
    assert found(a, wanted) == set()
    assert not [daemon.name for daemon in holders if daemon.running]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists() and not _is_zombie(pid)]
    assert _sas(a) == ""
    assert found(b, secrets(b)) | found(c, secrets(c)) == others, "another node was touched"
    for peer in (b, c):
        _wait_no_sa(peer)
    b.wait_protected(c)
    again = a.meshsec("zeroize", "--yes-destroy-keys")
    assert (again.returncode, again.stdout) == (0, "Files destroyed: 0. Processes ended: none.\n")


def test_daemons_that_hang_are_no_obstacle(lab: Lab) -> None:
    a = lab["a"]
    wanted = secrets(a)
    for daemon in (a.daemons.agent, a.daemons.charon):
        os.kill(daemon.pid, signal.SIGSTOP)
    assert bool(a.run("ip", "xfrm", "state").stdout) == IN_KERNEL, "the negative case of what follows"
    began = time.monotonic()
    assert a.meshsec("zeroize", "--yes-destroy-keys").returncode == 0
    assert time.monotonic() - began < patient(LIMIT)
    assert _sas(a) == "", "SAs and policies"
    assert found(a, wanted) == set()
    assert not a.daemons.agent.running
    assert not a.daemons.charon.running


@pytest.mark.skipif(not libreswan.suites(), reason="libreswan is not unpacked: tools/setup system")
@pytest.mark.parametrize("hangs", [False, True])
def test_with_libreswan_the_secrets_of_its_pairs_go_with_pluto(hangs: bool) -> None:
    with Lab("zeroize-pluto", line(names(2)), Options(libreswan=next(iter(libreswan.suites())))) as lab:
        lab.set_up().trust_all().start("pluto", "router", "meshsecd")
        a = lab["a"]
        a.daemons.pluto.wait_said("authenticated peer using authby=secret", 120)
        wanted = secrets(a) | {"pair": _pair_secret(a)}
        pluto = a.daemons.pluto.daemon
        assert found(a, wanted) == {"PEM", "pair"}
        assert in_memory([pluto.pid], bytes.fromhex(wanted["pair"].decode())), "the search is no use"
        if hangs:
            os.kill(pluto.pid, signal.SIGSTOP)
        began = time.monotonic()
        assert a.meshsec("zeroize", "--yes-destroy-keys").returncode == 0
        assert time.monotonic() - began < patient(LIMIT)
        assert found(a, wanted) == set()
        assert not pluto.running
        assert _sas(a) == ""


def _pair_secret(node: Node) -> bytes:
    """Return the secret of a's pair, as pluto's file has it."""
    (path,) = node.run_directory.rglob("*.secrets")
    (digits,) = re.findall(r"PSK 0x([0-9a-f]+)", path.read_text())
    return str(digits).encode()


def _wait_no_sa(peer: Node) -> None:
    peer.wait_for("no SA with a", lambda: not peer.charon.sas_with("a"), 10)


def _sas(node: Node) -> str:
    return node.run("ip", "xfrm", "state").stdout + node.run("ip", "xfrm", "policy").stdout


def _is_zombie(pid: int) -> bool:
    return ") Z" in Path(f"/proc/{pid}/stat").read_text()

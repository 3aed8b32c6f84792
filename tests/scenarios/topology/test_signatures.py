"""Routers that require signatures route over what both ends have signed, and never speak unsigned.

The signers are the real program, which has the key in the router's place.
"""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from tests.lab.net import topology
from tests.lab.node.routers import Mesh
from tests.lab.node.signing import SigningRouter
from tests.lab.observe.capture import Capture

CONVERGED = 60.0
SILENCE = 6.0
"""Seconds without a word: three HELLO intervals, in which a router that speaks sends at least two HELLOs."""
EACH = "hello_interval = 1\nhello_validity = 4"
MANET_PORT = 269


@pytest.fixture(name="mesh")
def line_of_three() -> Iterator[Mesh]:
    """Give a - b - c, of which c does not sign; the signers of a and b do not run yet."""
    with Mesh(topology.line(["a", "b", "c"]), makes={"a": SigningRouter, "b": SigningRouter}) as mesh:
        for router in mesh.routers.values():
            router.configure(each=EACH)
        mesh.start()
        yield mesh


def _signing(mesh: Mesh, name: str) -> SigningRouter:
    router = mesh[name]
    assert isinstance(router, SigningRouter)
    return router


def _sent(router: SigningRouter, directory: Path, seconds: float) -> list[bytes]:
    """Return the OLSRv2 packets that a router puts on its link in this time."""
    (interface,) = router.interfaces
    own = json.loads(router.ip("-json", "link", "show", interface).stdout)[0]["address"]
    with Capture(router.namespace, [interface], directory):
        time.sleep(seconds)
    frames = (Ether(bytes(frame)) for path in directory.glob("*.pcap") for frame in rdpcap(str(path)))
    return [bytes(one[UDP].payload) for one in frames if one.src == own and UDP in one and one[UDP].dport == MANET_PORT]


def _standing(router: SigningRouter) -> str:
    return str(json.loads(router.text.ask("/signatures"))["signer"])


def _start_signers(mesh: Mesh) -> None:
    for name in ("a", "b"):
        _signing(mesh, name).start_signer()


def test_signers_that_come_late_make_a_mesh_and_who_does_not_sign_is_no_part_of_it(mesh: Mesh) -> None:
    a, b = _signing(mesh, "a"), _signing(mesh, "b")
    assert (_standing(a), a.kernel.destinations()) == ("away", set())
    _start_signers(mesh)
    a.wait_routes(b.destinations, CONVERGED)
    b.wait_routes(a.destinations, CONVERGED)
    assert _standing(a) == "connected"
    b.wait_for("c is heard and refused", lambda: b.counter("not_signed") > 10, CONVERGED)
    assert b.kernel.destinations() == a.destinations
    assert not any(destination in mesh["c"].destinations for destination in a.kernel.destinations())
    b.configure('signatures = "off"', each=EACH)
    b.daemon.send_signal(signal.SIGHUP)
    b.wait_reachable(mesh["c"].destinations, CONVERGED)


def test_without_its_signer_a_router_says_nothing_and_with_it_goes_on_with_higher_counters(
    mesh: Mesh, tmp_path: Path
) -> None:
    a, b = _signing(mesh, "a"), _signing(mesh, "b")
    assert _sent(a, tmp_path / "before", SILENCE) == [], "it waits for its first signer"
    _start_signers(mesh)
    b.wait_routes(a.destinations, CONVERGED)
    spoken = _sent(a, tmp_path / "signed", SILENCE)
    assert len(spoken) > 2
    assert all(a.key in packet for packet in spoken)
    before = int(a.counter_file.read_text(encoding="ascii"))
    a.signer.kill()
    a.wait_for("the signer is missed", lambda: _standing(a) == "away", CONVERGED)
    assert _sent(a, tmp_path / "without", SILENCE) == []
    b.wait_routes(set(), CONVERGED)
    a.start_signer()
    b.wait_routes(a.destinations, CONVERGED)
    assert int(a.counter_file.read_text(encoding="ascii")) > before
    assert b.counter("forged") + b.counter("replayed") == 0


def test_a_router_that_restarts_is_believed_by_the_same_signer(mesh: Mesh) -> None:
    a, b = _signing(mesh, "a"), _signing(mesh, "b")
    _start_signers(mesh)
    b.wait_routes(a.destinations, CONVERGED)
    a.daemon.kill()
    b.wait_routes(set(), CONVERGED)
    a.start()
    b.wait_routes(a.destinations, CONVERGED)
    a.wait_routes(b.destinations, CONVERGED)

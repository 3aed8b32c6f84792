"""Programs on a node still cannot get around the rules, abuse the control socket or find secrets."""

import contextlib
import json
import os
import re
import socket
import threading
from base64 import b32encode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw

from meshsec.adapters.files import key_store
from meshsec.core.trust import card as cards
from meshsec.core.trust import identity
from tests.lab.basics.waiting import wait_until
from tests.lab.forge import account
from tests.lab.forge.raw import Forger, Way
from tests.lab.lab import Lab
from tests.lab.net import namespaces, traffic
from tests.lab.net.packets import MARK, Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

IPV6_TRANSPARENT, IP_TRANSPARENT, IPV6_FREEBIND = 75, 19, 78  # linux/in6.h, linux/in.h.
FWMARK, TABLE = 0x77, 77


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Start a - b - c, with the overlay where this machine has TUN devices."""
    with Lab("node", line(names(3)), Options(ipv4=True, overlay=capabilities.probe().tun)) as made:
        yield made.set_up().trust_all().start()


@pytest.fixture
def ends(lab: Lab) -> tuple[Node, Node]:
    """Return a and c, protected."""
    lab.heal()
    a, c = lab["a"], lab["c"]
    a.wait_protected(c, 120)
    return a, c


def udp(source: str, target: str) -> Packet:
    """Build user data in the clear."""
    header = IPv6(src=source, dst=target) if ":" in target else IP(src=source, dst=target)
    return header / UDP(sport=7001, dport=traffic.PORT) / Raw(MARK)


@contextlib.contextmanager
def policy_route(a: Node, b: Node) -> Iterator[None]:
    """Let a program's marked packets go past the protected device, straight to the neighbour."""
    shown = b.run("ip", "-6", "-o", "address", "show", "dev", "mesh-a", "scope", "link").stdout
    via = shown.split()[3].partition("/")[0]
    commands = [
        ("-6", "route", "{}", "default", "via", via, "dev", "mesh-b", "table", str(TABLE)),
        ("-4", "route", "{}", "default", "via", "inet6", via, "dev", "mesh-b", "table", str(TABLE)),
        ("-6", "rule", "{}", "fwmark", str(FWMARK), "table", str(TABLE), "priority", "1"),
        ("-4", "rule", "{}", "fwmark", str(FWMARK), "table", str(TABLE), "priority", "1"),
    ]
    for command in commands:
        a.run("ip", *(word.format("add") for word in command))
    try:
        yield
    finally:
        for command in commands:
            a.run("ip", *(word.format("del") for word in command), check=False)


def test_no_socket_option_raw_socket_or_policy_route_sends_in_the_clear(lab: Lab, ends: tuple[Node, Node]) -> None:
    """All of it needs root on a, except for the plain socket. No rule sees what is sent below IP (AF_PACKET): it shows
    here that the capture would see the others."""
    a, c = ends
    pairs = [(a.address, c.address), (a.address, c.locator), (a.locator, c.address), (a.ipv4, c.ipv4)]
    pairs += [(c.address, c.address), ("2001:db8::1", c.address), ("192.0.2.1", c.ipv4)]
    with captured(lab, "around") as captures, policy_route(a, lab["b"]):
        for source, target in pairs:
            for way in (_marked, _bound_to_device, _transparent, _raw):
                with contextlib.suppress(OSError):
                    namespaces.within(a.namespace, lambda way=way, source=source, target=target: way(source, target))  # type: ignore[misc]
        with flow(a, c) as running:
            wait_arrivals(running)
        assert_nothing_clear(captures)
        with Forger(Way.between(lab.end_of("a", "b"), lab.end_of("b", "a"))) as forger:
            forger.send(udp(a.address, c.address))
        seen = captures["b"]
        wait_until("what is sent below IP is seen", lambda: seen.counts[Kind.CLEAR] > 0, [seen], 60)


def _opened(source: str, *options: tuple[int, int, int | bytes]) -> socket.socket:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    with contextlib.ExitStack() as stack:
        stack.enter_context(made)
        for level, name, value in options:
            made.setsockopt(level, name, value)
        made.bind((source, 0))
        stack.pop_all()
    return made


def _send(source: str, target: str, *options: tuple[int, int, int | bytes]) -> None:
    with _opened(source, *options) as out:
        for _ in range(3):
            out.sendto(MARK, (target, traffic.PORT))


_MARKED = (socket.SOL_SOCKET, socket.SO_MARK, FWMARK)


def _marked(source: str, target: str) -> None:
    _send(source, target, _MARKED)


def _bound_to_device(source: str, target: str) -> None:
    _send(source, target, (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"mesh-b"))


def _transparent(source: str, target: str) -> None:
    level, name = (socket.IPPROTO_IPV6, IPV6_TRANSPARENT) if ":" in source else (socket.IPPROTO_IP, IP_TRANSPARENT)
    _send(source, target, _MARKED, (level, name, 1))


def _raw(source: str, target: str) -> None:
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as out:
        out.setsockopt(*_MARKED)
        for _ in range(3):
            out.sendto(bytes(udp(source, target)), (target, 0))


HOSTILE_NAMES = [
    "",
    ".",
    "..",
    "../../var/node",
    "/etc/passwd",
    "a/b",
    "a\0b",
    "a\nb",
    "-rf",
    "$(id)",
    "b; flush ruleset",
    "a{b}",
    "%s%n",
    "\u202eevil",
    "\ud800",
    "x" * 100_000,
    "a.card",
    "b~",
    "b^",
]


METHODS = ["peer_add", "peer_next", "peer_remove", "peer_end", "peer_revoke", "explain", "mode"]


@pytest.mark.parametrize("method", METHODS)
def test_hostile_names_on_the_control_socket_are_refused_and_change_nothing(
    ends: tuple[Node, Node], method: str
) -> None:
    a, c = ends
    before = _tree(a)
    card = _strangers_card()
    for name in HOSTILE_NAMES:
        with contextlib.suppress(LookupError):
            answer = a.control.ask(method, name=name, peer=name, target=name, card=card, reason=name, plane="ipsec")
            assert answer == {}, f"{name!r} is taken; of a line that is too long the connection is closed"
    assert _tree(a) == before
    assert a.control.peer(c.name)["state"] == "protected"
    assert a.control.ask("peer_add", name="stranger", card=card), "a name that is one is taken with the same card"
    a.control.ask("peer_remove", name="stranger")


def _asking(socket_path: Path, method: str, **params: object) -> str:
    """Return code that sends a command to the control socket and prints the answer."""
    line = json.dumps({"id": 1, "method": method, "params": params}) + "\n"
    return f"""
import socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
s.connect({str(socket_path)!r})
s.sendall({line.encode()!r})
print(s.makefile().readline())
"""


def test_an_account_changes_nobodys_trust_by_the_control_socket(ends: tuple[Node, Node]) -> None:
    """The control: it sees the socket, and the same command of root's is accepted."""
    a, _ = ends
    path, card = a.run_directory / "control.sock", _strangers_card()
    before = _tree(a)
    assert account.try_once(a, f"import os, stat; print(stat.S_ISSOCK(os.stat({str(path)!r}).st_mode))") == "True"
    for method, params in (
        ("status", {}),
        ("peer_add", {"name": "stranger", "card": card}),
        ("peer_next", {"name": "c", "card": card}),
        ("peer_remove", {"name": "c"}),
        ("peer_revoke", {"target": "c", "reason": ""}),
    ):
        said = account.try_once(a, _asking(path, method, **params))
        assert said == "PermissionError: [Errno 13] Permission denied", f"{method}: {said}"
    assert _tree(a) == before
    code = _asking(path, "peer_add", name="stranger", card=card)
    assert '"result"' in a.run("/usr/bin/python3", "-I", "-c", code).stdout
    a.control.ask("peer_remove", name="stranger")


def test_a_peers_next_key_is_nobody_elses_key(lab: Lab, ends: tuple[Node, Node]) -> None:
    """Two names would have c's key: its own, and b as the next one. The control: a key that no peer has is accepted."""
    a, c = ends
    before = _tree(a)
    for card in (c.card, a.card):
        refused = a.meshsec("peer", "next", "b", card, check=False)
        assert refused.returncode != 0, refused.stdout
        with pytest.raises(LookupError, match="refused"):
            a.control.ask("peer_next", name="b", card=card)
    assert _tree(a) == before
    assert a.control.peer(c.name)["state"] == "protected"
    a.meshsec("peer", "next", "b", _strangers_card())
    assert _tree(a) != before
    a.meshsec("peer", "remove", "b")
    a.meshsec("peer", "add", "b", lab["b"].card)


def _strangers_card() -> str:
    seed = identity.generate(lambda: os.urandom(identity.KEY_LENGTH))
    return cards.render(identity.make_card("stranger", identity.public_key_of(seed)))


def _tree(node: Node) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in node.etc.rglob("*") if path.is_file()}


def test_a_peer_that_is_removed_and_added_again_and_again_ends_as_the_last_command_says(
    ends: tuple[Node, Node],
) -> None:
    """c negotiates all the time, so that removals meet negotiations in every phase."""
    a, c = ends
    stop = threading.Event()

    def negotiate() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                c.charon.initiate("a", "mesh")

    threads = [threading.Thread(target=negotiate, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            a.control.ask("peer_remove", name="c")
            a.control.ask("peer_add", name="c", card=c.card)
        a.control.ask("peer_remove", name="c")
        assert not _is_heard(c, a), "the rules close the removed peer before the command answers"
        a.wait_for("nothing of it is configured", lambda: "c" not in _connections(a), 60)
        a.wait_for("no SA of the removed", lambda: not any(sa.installed for sa in a.charon.sas() if sa.peer == "c"), 60)
        assert not a.control.peer(c.name)
        for _ in range(10):
            with contextlib.suppress(OSError):
                c.charon.initiate("a", "mesh")
            assert not any(sa.installed for sa in a.charon.sas() if sa.peer == "c")
        assert not _is_heard(c, a)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        if not a.control.peer(c.name):
            a.control.ask("peer_add", name="c", card=c.card)
    a.wait_protected(c, 120)
    with flow(a, c) as running:
        wait_arrivals(running)


def _connections(node: Node) -> set[str]:
    with node.charon._session() as session:
        return {name for entry in session.list_conns() for name in entry}


def _is_heard(sender: Node, node: Node) -> bool:
    with traffic.udp_socket(node.namespace, node.address, traffic.PORT) as inside:
        inside.settimeout(1)
        traffic.send((sender.namespace, sender.address), node.address)
        with contextlib.suppress(TimeoutError):
            return bool(inside.recv(100))
    return False


def test_no_secret_is_in_a_log_a_command_line_or_an_environment(lab: Lab, ends: tuple[Node, Node]) -> None:
    a, c = ends
    a.meshsec("doctor", "--json", check=False)
    a.meshsec("drift", "--json", check=False)
    a.meshsec("key", "show")
    shown = list(_shown(lab))
    for node in (a, lab["b"], c):
        for secret in _secrets(node):
            assert not [where for where, text in shown if secret in text], f"a secret of {node.name} is shown"
    card = a.card.encode()
    assert any(card in text for _, text in [*shown, ("card", (c.peers / "a.card").read_bytes())]), "the search finds"
    key = (a.var / "node.key").read_bytes()
    assert any(secret in key for secret in _secrets(a)), "the secrets are those that the file has"


def _secrets(node: Node) -> Iterator[bytes]:
    private = key_store.load(node.var / "node.key").private
    der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    seed = private.private_bytes_raw()
    for secret in (seed, der):
        yield secret
        yield secret.hex().encode()
        yield secret.hex().upper().encode()
        yield b64encode(secret).rstrip(b"=")
    yield b32encode(seed).rstrip(b"=").lower()
    yield ":".join(re.findall("..", seed.hex())).encode()
    yield b", ".join(str(octet).encode() for octet in seed)
    config = node.etc / "overlayd.conf"
    if config.exists():
        yield from re.findall(rb'(?:password|secret|private_key|seed)\s*=\s*"([^"]{8,})"', config.read_bytes())


def _shown(lab: Lab) -> Iterator[tuple[str, bytes]]:
    for node in lab.nodes.values():
        for log in node.logs.glob("*"):
            yield str(log), log.read_bytes()
        for daemon in node.daemons.all():
            for name in ("cmdline", "environ"):
                path = Path(f"/proc/{daemon.pid}/{name}")
                yield str(path), path.read_bytes()

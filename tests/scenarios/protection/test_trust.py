"""Trust is mutual and explicit: without a card there is no SA, and an address belongs to its key."""

from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from meshsec.core.trust import card as cards
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names, star
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow


def test_trust_by_one_side_gives_no_sa_and_a_reason_on_both_sides() -> None:
    with Lab("one-sided", line(names(2)), Options(ipv4=True)) as lab:
        a, b = lab["a"], lab["b"]
        lab.set_up()
        a.trust(b)
        with captured(lab, "one-sided") as captures:
            lab.start()
            a.wait_for("a knows why", lambda: _blames_trust(a.control.peer(b.name)), 60)
            traffic.send((a.namespace, a.ipv4), b.ipv4)
            stranger = b.wait_for("b reports the stranger", lambda: _stranger(b, a), 60)
        assert "no card of this node" in stranger["found"], stranger
        assert not any(sa.installed for sa in (*a.charon.sas(), *b.charon.sas()))
        assert_nothing_clear(captures)

        b.trust(a)
        a.wait_protected(b, 60)
        with flow(a, b) as running:
            wait_arrivals(running)


def _stranger(node: Node, other: Node) -> dict[str, str] | None:
    """Return what doctor says about nodes that asked in vain, once it names this one."""
    checks = (check for check in node.control.ask("doctor").get("checks", []) if check["name"] == "strangers")
    return next((check for check in checks if other.locator in check["found"] or other.address in check["found"]), None)


def _blames_trust(entry: dict[str, Any]) -> bool:
    """Return whether the failure is about trust: an earlier one may be that the other end did not answer yet."""
    meaning = (entry.get("last_failure") or {"meaning": ""})["meaning"]
    return entry.get("state") == "failed" and "does not trust this node" in meaning


@pytest.fixture
def impostors() -> Iterator[Lab]:
    """Start a lab in which m announces c's address, unsigned, and c does not run. a and b trust c; b is the relay."""
    with Lab("impostor", star(["b", "a", "c", "m"]), Options(ipv4=True, signatures="off")) as lab:
        a, b, c, m = (lab[name] for name in "abcm")
        lab.set_up().trust("a", "c")
        _dress_up(m, c)
        b.assign_addresses()
        lab.start("charon", nodes=[a, m]).start("meshsecd", nodes=[a]).start("router", nodes=[a, b, m])
        a.wait_route(c)
        yield lab


def _dress_up(impostor: Node, victim: Node) -> None:
    """Have the impostor's router announce the victim's addresses and the impostor answer on them."""
    for mine, stolen in (
        (impostor.address, victim.address),
        (impostor.locator, victim.locator),
        (impostor.ipv4, victim.ipv4),
    ):
        config = impostor.etc / "olsrv2d.conf"
        config.write_text(config.read_text(encoding="utf-8").replace(mine, stolen), encoding="utf-8")
        impostor.run("ip", "address", "add", stolen, "dev", "lo")


def test_an_untrusted_node_that_announces_a_peers_address_gets_nothing(impostors: Lab) -> None:
    a, c = impostors["a"], impostors["c"]
    with captured(impostors, "announced") as captures:
        asked = captures["m"]
        wait_until("the impostor is asked for its key", lambda: asked.counts[Kind.IKE] > 0, [asked], 60)
        entry = a.wait_state(c, "failed", 90)
        for source, target in (("::", c.address), ("::", c.locator), (a.ipv4, c.ipv4)):
            traffic.send((a.namespace, source), target)
    assert entry["reason"]
    assert not any(sa.installed for sa in a.charon.sas())
    assert_nothing_clear(captures)


def test_a_wrong_key_gets_no_sa_and_the_reason_says_so(impostors: Lab) -> None:
    a, c, m = impostors["a"], impostors["c"], impostors["m"]
    with captured(impostors, "wrong-key") as captures:
        word = _negotiate_as(m, c, a)
        entry = a.wait_for("the reason names the key", lambda: _blames_key(a.control.peer(c.name)), 90)
        for source, target in (("::", c.address), (a.ipv4, c.ipv4)):
            traffic.send((a.namespace, source), target)
    assert "key" in entry["reason"]
    assert "AUTHENTICATION_FAILED" in word or "authentication" in word.lower() or "failed" in word
    assert not any(sa.installed for sa in a.charon.sas())
    assert_nothing_clear(captures)


def test_the_right_key_at_the_same_place_does_get_an_sa(impostors: Lab) -> None:
    """The negative case of both: only the key differs. With c's own node in m's place the SA comes up."""
    a, c, m = impostors["a"], impostors["c"], impostors["m"]
    for daemon in m.daemons.all():
        daemon.kill()
    impostors.start(nodes=[c])
    a.wait_protected(c, 150)
    with flow(a, c) as running:
        wait_arrivals(running)


def _blames_key(entry: dict[str, str]) -> dict[str, str] | None:
    return entry if entry.get("state") == "failed" and "key" in entry.get("reason", "") else None


def _negotiate_as(impostor: Node, victim: Node, target: Node) -> str:
    """Load a key of the impostor's own under the victim's identity and negotiate. Return charon's error."""
    key = Ed25519PrivateKey.generate()
    expected = Ed25519PublicKey.from_public_bytes(cards.parse(target.card).public_key)
    kernel = capabilities.probe().esp == "kernel"
    ends = (victim.address, target.address) if kernel else (victim.locator, target.locator)
    spec = {
        "local_addrs": [ends[0]],
        "remote_addrs": [ends[1]],
        "encap": "no" if kernel else "yes",
        "remote": {
            "auth": "pubkey",
            "id": target.address,
            "pubkeys": [_pem(expected)],
        },
        "children": {
            "impostor": {
                "mode": "transport" if kernel else "tunnel",
                "local_ts": [f"{victim.address}/128"],
                "remote_ts": [f"{target.address}/128"],
            }
        },
    }
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return impostor.charon.impersonate(victim.address, private, _pem(key.public_key()), spec)


def _pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

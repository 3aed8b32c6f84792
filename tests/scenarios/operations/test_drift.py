"""``meshsec drift`` reports what others changed in charon and in the kernel, and nothing where all is in order."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_no_drift, differences, drift, wait_no_drift

OPTIONS = Options(ipv4=True, overlay=capabilities.probe().tun)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Start the two nodes a - b, with both data planes where there are TUN devices."""
    with Lab("drift", line(names(2)), OPTIONS) as lab:
        lab.set_up().trust_all().start()
        yield lab


@pytest.fixture
def pair(lab: Lab) -> tuple[Node, Node]:
    """Return both nodes, protected and without drift."""
    lab.heal()
    lab.wait_full_mesh()
    for node in (lab["a"], lab["b"]):
        wait_no_drift(node)  # A charon that ended leaves its SAs for a while.
    return lab["a"], lab["b"]


def restart(node: Node) -> None:
    node.daemons.agent.stop()
    node.daemons.agent.start()
    node.daemons.agent.wait_ready()


def test_sas_that_come_and_go_are_no_drift(pair: tuple[Node, Node]) -> None:
    a, b = pair
    before = a.charon.sas_with(b.name)[0]
    a.charon.rekey("b", "mesh")
    assert_no_drift(a)
    a.wait_for("another CHILD_SA", lambda: a.wait_protected(b).child_spis != before.child_spis, 60)
    assert_no_drift(b)
    a.charon.rekey("b")
    assert_no_drift(a)
    a.wait_for("another IKE_SA", lambda: a.wait_protected(b).spis != before.spis, 60)
    for node in pair:
        assert_no_drift(node)


def test_nothing_is_left_of_a_charon_that_was_killed(lab: Lab, pair: tuple[Node, Node]) -> None:
    """Its SAs stay in the kernel until others are established; then they are removed."""
    a, b = pair
    before = a.wait_protected(b).child_spis
    a.daemons.charon.kill()
    lab.start("charon", nodes=[a])
    a.wait_for("other SAs", lambda: any(sa.child_spis != before for sa in a.charon.sas_with(b.name)), 120)
    for node in pair:
        wait_no_drift(node)


def test_a_peer_by_the_overlay_is_no_drift(pair: tuple[Node, Node]) -> None:
    if not OPTIONS.overlay:
        pytest.skip("the overlay needs TUN devices")
    a, b = pair
    a.meshsec("mode", "overlay", "b")
    try:
        assert_no_drift(a)
        a.wait_for("the overlay carries", lambda: a.control.peer(b.name).get("data_plane") == "overlay", 90)
        for node in pair:
            assert_no_drift(node)
    finally:
        a.meshsec("mode", "default", "b")


def test_what_others_configure_in_charon_is_reported_until_it_is_fixed(pair: tuple[Node, Node]) -> None:
    a, b = pair
    a.charon.configure("b", {**_as_wanted(a, b), "proposals": ["aes128-sha256-modp2048"]})
    (found,) = drift(a)["differences"]
    assert (found["where"], found["peer"], found["what"]) == ("connection", "b", "configured last by")
    a.charon.configure("evil", {"remote_addrs": ["%any"], "local": {"auth": "psk"}, "remote": {"auth": "psk"}})
    a.charon.configure("b", {**_as_wanted(a, b), "rekey_time": "0", "version": "0"})
    a.charon.give_secret("evil", "known to many")
    try:
        assert differences(a) == {("connection", "b"), ("connection", None), ("credentials", None)}
        assert {one["what"] for one in drift(a, "b")["differences"]} == {
            "configured last by",
            "ike version",
            "ike rekey time",
        }
        shown = a.meshsec("drift", check=False).stdout
        assert "connection evil: is with %any; should be none" in shown
    finally:
        a.charon.take_secret("evil")
    restart(a)
    a.wait_for("nothing of it is left", lambda: not differences(a), 60)


def test_an_sa_of_the_former_policy_is_reported_and_the_fix_makes_another(pair: tuple[Node, Node]) -> None:
    a, b = pair
    before = a.wait_protected(b).spis
    # A suite that no processor makes the first choice.
    other = {"ike_proposals": ["chacha20poly1305-prfsha256-x25519"], "esp_proposals": ["aes128gcm16-x25519"]}
    a.reconfigure(replace(OPTIONS, policy=other))
    try:
        restart(a)
        assert a.wait_protected(b).spis == before, "a restart of meshsecd negotiates nothing"
        assert {("ike_sa", "b"), ("child_sa", "b")} == differences(a)
        _fix(a, drift(a)["differences"][0]["mend"], "--yes")
        a.wait_protected(b)
        assert_no_drift(a)
    finally:
        a.reconfigure(OPTIONS)
        restart(a)


def test_a_policy_of_others_in_the_kernel_is_reported(pair: tuple[Node, Node]) -> None:
    a, b = pair
    a.run("ip", "xfrm", "policy", "add", "src", "::/0", "dst", f"{b.address}/128", "dir", "out", "priority", "7")
    (found,) = drift(a)["differences"]
    assert (found["where"], found["is"]) == ("xfrm_policy", "priority 7: allow without IPsec")
    _fix(a, found["mend"])
    assert_no_drift(a)


def test_states_and_policies_that_others_removed_are_reported(pair: tuple[Node, Node]) -> None:
    if capabilities.probe().esp != "kernel":
        pytest.skip("SAs have states and policies in the kernel only where it has ESP")
    a, b = pair
    (first, *_) = a.wait_protected(b).installed
    a.run("ip", "xfrm", "policy", "delete", "src", f"{a.address}/128", "dst", f"{b.address}/128", "dir", "out")
    a.run(
        "ip", "xfrm", "state", "delete", "src", a.address, "dst", b.address, "proto", "esp", "spi", f"0x{first.spi_out}"
    )
    assert differences(a) == {("xfrm_policy", "b"), ("xfrm_state", "b")}
    stray = ["src", b.address, "dst", a.address, "proto", "esp", "spi", "0x4242", "mode", "transport"]
    key = "0x" + "00" * 20
    a.run("ip", "xfrm", "state", "add", *stray, "aead", "rfc4106(gcm(aes))", key, "128")
    strays = [one for one in drift(a)["differences"] if "00004242" in one["what"]]
    _fix(a, strays[0]["mend"])
    _fix(a, next(one["mend"] for one in drift(a)["differences"]), "--yes")
    a.wait_protected(b)
    assert_no_drift(a)


def test_charon_that_does_not_answer_is_not_called_free_of_drift(pair: tuple[Node, Node]) -> None:
    a, _ = pair
    a.daemons.charon.kill()
    view = drift(a, code=3)
    assert {one["where"] for one in view["unexamined"]} >= {"connection", "ike_sa", "xfrm_state"}
    assert not view["differences"]


def test_a_name_that_is_no_peer_s_is_refused(pair: tuple[Node, Node]) -> None:
    result = pair[0].meshsec("drift", "nobody", check=False)
    assert result.returncode == 1
    assert "nobody is not a peer" in result.stderr


def _fix(node: Node, fix: str, *more: str) -> None:
    """Run the command of a line of advice, which ends before the first colon and blank."""
    command = shlex.split(fix.split(": ", maxsplit=1)[0])
    if command[0] == "meshsec":
        into = ("--into", str(node.directory)) if "bench" in command else ()
        node.meshsec(*command[1:], *more, *into)
    else:
        node.run(*command)


def _as_wanted(node: Node, peer: Node) -> Mapping[str, Any]:
    """Return the connection that meshsecd would load, except for its proposals."""
    kernel = capabilities.probe().esp == "kernel"
    here, there = (node.address, peer.address) if kernel else (node.locator, peer.locator)
    times = {"rekey_time": "3600", "replay_window": "256"}
    six = {"local_ts": [f"{node.address}/128"], "remote_ts": [f"{peer.address}/128"], **times}
    four = {"local_ts": [f"{node.ipv4}/32"], "remote_ts": [f"{peer.ipv4}/32"], **times}
    both = {key: [*six[key], *four[key]] for key in ("local_ts", "remote_ts")}
    children = (
        {"mesh": {"mode": "transport", **six}, "mesh4": {"mode": "tunnel", **four}}
        if kernel
        else {"mesh": {"mode": "tunnel", **both, **times}}
    )
    return {
        "version": "2",
        "local_addrs": [here],
        "remote_addrs": [there],
        "unique": "no",
        "rekey_time": "14400",
        "local": {"auth": "pubkey", "id": node.address},
        "remote": {"auth": "pubkey", "id": peer.address},
        "children": children,
    }

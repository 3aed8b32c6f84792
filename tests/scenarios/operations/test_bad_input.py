"""Mistakes of a person, a disk or another node are refused with a clear message, and the last good state stays in
force."""

import re
import shutil
import signal
from functools import partial

import pytest

from tests.lab.basics.shell import run
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import flow, spis


def reload(node: Node) -> None:
    """Reload meshsecd as `systemctl reload` does."""
    node.daemons.agent.send_signal(signal.SIGHUP)


def _flip(card: str, at: int) -> str:
    return card[:at] + ("q" if card[at] != "q" else "p") + card[at + 1 :]


def test_a_corrupt_card_is_refused_with_the_place_of_the_error(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before = (a.peers / "c.card").read_bytes()
    result = a.meshsec("peer", "add", "c", _flip(c.card, 30), check=False)
    assert result.returncode == 1
    assert re.search(r"\b31\b", result.stderr), result.stderr
    assert (a.peers / "c.card").read_bytes() == before
    a.wait_protected(c, 10)


def test_a_card_file_that_was_damaged_leaves_the_peer_as_it_was(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    path, before = a.peers / "c.card", spis(a, c)
    path.write_text(_flip(c.card, 40) + "\n", encoding="ascii")
    try:
        reload(a)
        found = a.wait_for("doctor names the file", lambda: _doctor_says(a, "c.card"), 60)
        assert "trust store" in found["name"]
        assert spis(a, c) == before
        with flow(a, c) as running:
            wait_arrivals(running)
    finally:
        path.write_text(f"{c.card}\n", encoding="ascii")
        reload(a)
    a.wait_for("doctor is content again", lambda: not _doctor_says(a, "c.card"), 60)


def _doctor_says(node: Node, text: str) -> dict[str, str] | None:
    return next(
        (
            check
            for check in node.control.ask("doctor").get("checks", [])
            if text in str(check) and check["level"] != "ok"
        ),
        None,
    )


def test_a_corrupt_configuration_is_refused_with_file_and_line_and_the_last_one_stays(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    good, before = a.config.read_text(encoding="utf-8"), spis(a, c)
    lines = good.splitlines()
    lines.insert(3, 'interfaces = ["mesh-b"')
    a.config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        said = a.meshsec("key", "show", check=False)
        assert said.returncode == 1
        assert re.search(r"meshsec\.toml:\d+", said.stderr), said.stderr
        reload(a)
        a.wait_for("meshsecd reports it", lambda: "meshsec.toml" in a.daemons.agent.tail(40), 60)
        assert spis(a, c) == before
        a.wait_protected(c, 10)
    finally:
        a.config.write_text(good, encoding="utf-8")
        reload(a)


def test_a_card_with_an_address_that_is_already_known_is_refused(mesh: Lab) -> None:
    """The same card under another name, and the node's own card: an address has one owner and one name."""
    a, c = mesh["a"], mesh["c"]
    for name, card in (("other", c.card), ("me", a.card)):
        result = a.meshsec("peer", "add", name, card, check=False)
        assert result.returncode == 1
        assert result.stderr.strip()
        assert not (a.peers / f"{name}.card").exists()
    a.wait_protected(c, 10)


def test_a_card_with_an_ipv4_address_that_a_peer_has_is_refused(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    with Lab("twin", line(names(2))) as other:
        twin = other["a"]
        twin.number = c.number
        other.set_up({"a": mesh.options})
        result = a.meshsec("peer", "add", "twin", twin.card, check=False)
    assert result.returncode == 1
    assert c.ipv4 in result.stderr, result.stderr
    assert not (a.peers / "twin.card").exists()


@pytest.mark.parametrize(("signatures", "told"), [("off", "ad"), ("prefer", "a")])
def test_a_node_whose_address_is_announced_by_another_one_too_says_so(signatures: str, told: str) -> None:
    """The disk of a was cloned: d has its key and so its address. d started later, so its counters are higher, and
    nobody passes on the signed TCs of a.
    """
    with Lab("clone", line(names(4)), Options(signatures=signatures)) as lab:
        a, d = lab["a"], lab["d"]
        lab.set_up()
        shutil.copytree(a.var, d.var, dirs_exist_ok=True)
        d.set_up(lab.options)
        assert d.address == a.address
        lab.start(nodes=[lab[name] for name in "abc"])
        a.wait_route(lab["c"])
        assert not _doctor_says(a, "this node's key")
        lab.start(nodes=[d])
        for clone in (lab[name] for name in told):
            clone.wait_for("doctor names the clash", partial(_doctor_says, clone, "this node's key"), 60)
            assert any("a copy of this node's key" in one for one in clone.control.ask("status")["problems"])


def test_a_full_disk_while_a_card_is_written_keeps_what_was_there() -> None:
    with Lab("full-disk", line(names(3))) as lab:
        a, b, c = lab.nodes.values()
        lab.set_up()
        a.install_card(b)
        _give_small_disk(a)
        lab.start("charon", "meshsecd", nodes=[a])
        _inside(a, "dd", "if=/dev/zero", f"of={a.peers}/ballast", "bs=4k")
        before = _inside(a, "cat", f"{a.peers}/b.card")
        result = a.meshsec("peer", "add", "c", c.card, check=False)
        assert result.returncode == 1
        assert "No space left on device" in result.stderr, result.stderr
        assert _inside(a, "cat", f"{a.peers}/b.card") == before
        assert _inside(a, "ls", "-A", str(a.peers)).split() == [".lock", "b.card", "ballast"], (
            "half a card was left behind"
        )
        assert [peer["name"] for peer in a.control.ask("status")["peers"]] == ["b"]

        _inside(a, "rm", f"{a.peers}/ballast")
        a.trust(c)
        assert _inside(a, "cat", f"{a.peers}/c.card").strip() == c.card


def _give_small_disk(node: Node) -> None:
    """Give meshsecd a trust store of 16 KiB in its own mount namespace, which ends with the process."""
    steps = (
        "mount --make-rprivate /",
        "mount -t tmpfs -o size=16k tmpfs /mnt",
        'cp "$0"/*.card /mnt',
        'mount --move /mnt "$0"',
        'exec "$@"',
    )
    node.daemons.agent.argv[:0] = ["sh", "-c", " && ".join(steps), str(node.peers)]


def _inside(node: Node, *argv: str) -> str:
    """Run a program in meshsecd's mount namespace and below its root, which may be a chroot."""
    return run(["nsenter", "-t", str(node.daemons.agent.pid), "-m", "-r", *argv], check=False).stdout

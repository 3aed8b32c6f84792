"""``meshsec leaktest`` reports a protected mesh as tight, and finds a leak."""

import json
import shlex
from pathlib import Path

from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities
from tests.lab.node.options import Options
from tests.scenarios.protection.leaktests import ended, mark_of, relayed_until_now, started, waits_for, watching

NO_IPSEC = {
    "kernel": "ip xfrm policy flush; ip xfrm state flush",
    "libipsec": "ip -6 rule del table 220; ip -4 rule del table 220",
}
"""Shell commands after which the kernel sends user data without ESP, by where ESP runs."""


def test_a_tight_node_and_its_relay_report_it_so(mesh: Lab, tmp_path: Path) -> None:
    a, b, c = (mesh[name] for name in "abc")
    rules = "nft delete table inet meshsec"
    waits = f"sh -c {shlex.quote(waits_for(tmp_path / 'looks'))}"
    test = started(a, "c", "--seconds", "2", "--provoke", "renegotiate", "--while", waits, "--while", rules)
    relay = watching(b, mark_of(test))
    (tmp_path / "looks").touch()
    (status, view), (relayed, seen) = ended(test), relayed_until_now(relay)
    assert (status, view["verdict"], relayed, seen["verdict"]) == (0, "tight", 0, "tight"), (view, seen)
    assert [phase["name"] for phase in view["phases"]] == ["quiet", "renegotiate", waits, rules]
    assert sum(phase["packets"]["esp"] for phase in view["phases"]) > 0, view
    (peer,) = view["peers"]
    assert peer["name"] == "c"
    assert peer["answered"] > 0
    assert seen["phases"][0]["packets"]["esp"] > 0
    assert not seen["peers"], "a relay sends nothing"
    a.wait_for("the rules are back", lambda: a.control.ask("status").get("rules_stand"), 30)
    checks = json.loads(a.meshsec("doctor", "--json", check=False).stdout)["checks"]
    assert any("another program altered or removed them" in check["found"] for check in checks), checks
    a.wait_protected(c, 30)


def test_a_leak_is_seen_at_the_sender_and_at_a_relay(tmp_path: Path) -> None:
    with Lab("leak", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all().start()
        lab.wait_full_mesh()
        a, b = lab["a"], lab["b"]
        # meshsecd does not restore what is removed here: the rules, and the route or policy that leads into IPsec.
        undone = f"kill -9 {a.daemons.agent.pid}; nft delete table inet meshsec; {NO_IPSEC[capabilities.probe().esp]}"
        steps = f"{waits_for(tmp_path / 'looks')}; {undone}"
        test = started(a, "c", "--seconds", "2", "--while", f"sh -c {shlex.quote(steps)}", "--while", "true")
        relay = watching(b, mark_of(test))
        (tmp_path / "looks").touch()
        (status, view), (relayed, seen) = ended(test), relayed_until_now(relay)
    assert (status, view["verdict"], relayed, seen["verdict"]) == (1, "leak", 1, "leak"), (view, seen)
    assert view["phases"][0]["packets"]["clear"] == 0
    assert view["phases"][2]["packets"]["clear"] > 0
    addresses = {leak["destination"] for leak in view["clear"] if leak["outgoing"]}
    assert view["peers"][0]["ipv4"] in addresses, "routed by its locator, the other address has no way in the clear"

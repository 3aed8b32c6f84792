"""The roles make a node an overlay node, a gateway or a source of metrics and events, and refuse impossible values."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.longer import longer
from tests.lab.basics import shell
from tests.lab.basics.waiting import wait_until
from tests.lab.machines.fleet import INTERFACE, Fleet
from tests.lab.machines.fleet_controller import Controller
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

pytestmark = pytest.mark.timeout(900, func_only=True)
"""The time limit excludes the fixtures, because provisioning a fleet takes long."""

_HOOK = "/usr/local/bin/hear"
PASSWORD = "only the valley knows"  # noqa: S105  # a test's own
ACCESS: dict[str, object] = {
    "access_networks": ["10.130.0.0/16", "fd12:3456:789a:1::/64"],
    "access_radio": {"interface": "wlan1", "ssid": "valley", "frequency": 2412},
    "access_password": PASSWORD,
}
_CLIENTS = "meshsec-clients meshsec-dnsmasq"


@pytest.fixture(scope="module")
def more(controller: Controller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the fleet with all of this, and remove it afterwards."""
    for machine in controller.fleet.nodes.values():
        machine.write(_HOOK, "#!/bin/sh\nexec cat\n")
        machine.run("chmod", "0755", _HOOK)
    every = {"meshsec_settings": {"overlay": {"enabled": True}}, "monitoring_enabled": True, "monitoring_hook": _HOOK}
    gateway = {"gateway_uplink": INTERFACE, "gateway_probe": ["2001:db8:9::1"]}
    inventory = tmp_path_factory.mktemp("inventory") / "more.json"
    content = {"all": {"children": {"mesh": {"vars": every, "hosts": {"a": ACCESS, "c": gateway}}}}}
    inventory.write_text(json.dumps(content), encoding="ascii")
    controller.play("provision", "-i", str(inventory))
    yield inventory
    controller.play("provision")
    for name in controller.fleet.nodes:
        units = controller.fleet.ssh(
            name,
            f"systemctl is-active overlayd meshsec-metrics.timer meshsec-hook meshsec-hostapd {_CLIENTS}",
            check=False,
        )
        assert "\nactiv" not in f"\n{units.stdout}"
    assert controller.fleet.ssh("a", "ls /etc/credstore/meshsec.access-password", check=False).returncode != 0


@longer
def test_a_second_run_changes_nothing(controller: Controller, line: Fleet, more: Path) -> None:
    again = controller.play("provision", "-i", str(more))
    assert set(again.recap) >= set(line.nodes)
    assert again.changed == 0, again.output


def test_the_overlay_takes_user_data_where_the_mode_says_so(line: Fleet, more: Path) -> None:
    for here, there in (("a", "c"), ("c", "a")):
        line.ssh(here, f"meshsec mode overlay {there}")
    wait_until(
        "user data by the overlay", lambda: _plane(line, "a", "c") == _plane(line, "c", "a") == "overlay", (), 120
    )
    with captured(line.lab, "overlay") as captures:
        with flow(line.lab["a"], line.lab["c"]) as running:
            wait_arrivals(running, 50)
        assert captures["b"].counts[Kind.OVERLAY] > 0
    assert_nothing_clear(captures)
    for here, there in (("a", "c"), ("c", "a")):
        line.ssh(here, f"meshsec mode default {there}")
    wait_until("user data by IPsec", lambda: _plane(line, "a", "c") == _plane(line, "c", "a") == "ipsec", (), 120)


def test_a_gateway_is_found_and_the_mesh_hides_behind_it(line: Fleet, more: Path) -> None:
    assert line.ssh("a", "nft list table inet meshsec_uplink", check=False).returncode != 0
    # Hosts beyond have no route back to the mesh: an answer proves that the gateway masquerades.
    _live_beyond(line.namespace, "bridge", "2001:db8:9::1/64")
    _live_beyond(line.lab["c"].namespace, INTERFACE, "2001:db8:9::2/64")
    shell.run(["ip", "-n", line.lab["c"].namespace, "route", "replace", "default", "via", "2001:db8:9::1"])
    wait_until("the way out", lambda: _way_out(line, "a", "::/0") == "c", (), 60)
    asked = (
        "ping",
        "-n",
        "-c1",
        "-W2",
        "2001:db8:9::1",
    )  # The program is this machine's, because a bare node has none.
    wait_until("an answer from beyond", lambda: line.lab["a"].run(*asked, check=False).returncode == 0, (), 60)


def test_an_access_node_serves_and_says_what_its_access_point_lacks(line: Fleet, more: Path) -> None:
    """The machine has no radio, so its unit refuses to start hostapd, and nothing else is hindered."""
    assert line.ssh("a", f"systemctl is-active {_CLIENTS}", check=False).stdout == "active\nactive\n"
    mode = line.ssh("a", "stat -c '%a %U' /etc/credstore/meshsec.access-password").stdout
    assert mode == "600 root\n"
    refusal = "there is no wireless interface wlan1; fix: plug the adapter in"
    said = "journalctl --unit meshsec-hostapd --output cat"
    wait_until("the refusal", lambda: refusal in line.ssh("a", said).stdout, (), 60)
    assert PASSWORD not in line.ssh("a", "journalctl --output cat").stdout
    assert line.ssh("b", "ls /etc/credstore/meshsec.access-password", check=False).returncode != 0
    behind = "meshsec status --json"
    assert "10.130.0.0/16" in line.ssh("c", behind, check=False).stdout, "the others know who has clients"


def _way_out(line: Fleet, name: str, network: str) -> str | None:
    """Return through whom a node reaches the outside."""
    shown = json.loads(line.ssh(name, "meshsec gateway status --json", check=False).stdout)
    found: str | None = next(one["peer"] for one in shown["ways_out"] if one["network"] == network)
    return found


def _live_beyond(namespace: str, device: str, address: str) -> None:
    shell.run(["ip", "netns", "exec", namespace, "sysctl", "-q", "-w", f"net.ipv6.conf.{device}.disable_ipv6=0"])
    shell.run(["ip", "-n", namespace, "address", "replace", address, "dev", device, "nodad"])


def test_counters_and_events_are_reported(line: Fleet, more: Path) -> None:
    figures = "/var/lib/prometheus/node-exporter/meshsec.prom"
    wanted = 'meshsec_peer_state{peer="b",state="protected"} 1'
    wait_until("figures", lambda: wanted in line.ssh("a", f"cat {figures}", check=False).stdout.split("\n"), (), 120)
    assert "meshsec_up 1" in line.ssh("a", f"cat {figures}").stdout
    card = line.lab["c"].card
    line.ssh("a", "meshsec peer remove c")
    heard = "journalctl --unit meshsec-hook --output cat"
    wait_until("an event", lambda: '"kind": "removed", "peer": "c"' in line.ssh("a", heard).stdout, (), 60)
    line.ssh("a", f"meshsec peer add c {card}")


def test_a_container_is_refused_a_kernel(controller: Controller, line: Fleet) -> None:
    played = controller.play(
        "provision", "--tags", "rt_kernel", "-e", json.dumps({"rt_kernel_enabled": True}), check=False
    )
    assert played.status != 0
    assert "is a container" in played.output
    assert played.changed == 0


def _plane(line: Fleet, name: str, peer: str) -> str:
    peers = json.loads(line.ssh(name, "meshsec status --json", check=False).stdout)["peers"]
    return str(next(one["data_plane"] for one in peers if one["name"] == peer))

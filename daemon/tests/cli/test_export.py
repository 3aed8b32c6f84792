"""``export`` writes files that their programs can read; scenarios show what the programs do with them."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from meshsec.adapters import scheduler
from meshsec.cli import main

Meshsec = Callable[..., Result]
UNITS = Path(__file__).parents[2] / "systemd"


@pytest.fixture
def own(meshsec: Meshsec) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(meshsec("key", "show", "--json").stdout)
    return view


def open_networks(tmp_path: Path, *prefixes: str) -> None:
    """Have the policy of node a open networks, which the router then carries in the clear."""
    config = tmp_path / "a/meshsec.toml"
    config.write_text(f"{config.read_text()}\n[policy]\nopen_networks = {json.dumps(prefixes)}\n")


def test_a_protected_network_is_not_the_routers(meshsec: Meshsec) -> None:
    assert "attached" not in tomllib.loads(meshsec("export", "olsrv2d").stdout)


def test_the_configuration_of_olsrv2d_is_exported(meshsec: Meshsec, own: dict[str, Any], tmp_path: Path) -> None:
    open_networks(tmp_path, "10.9.0.0/16")
    exported = tomllib.loads(meshsec("export", "olsrv2d").stdout)
    assert exported == {
        "originators": [own["locator"], "10.77.0.1"],
        "signatures": "prefer",
        "signer": "/run/olsrv2-signer/sign.sock",
        "tc": {},
        "management": {"socket": "/run/olsrv2d/changes.sock"},
        "interface": [{"name": "mesh0", "hello_interval": 0.5}],
        "attached": [{"prefix": "10.9.0.0/16", "distance": 2}],
        "accept": {"hosts": ["fc00::/7", "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"]},
    }


def card(node: Meshsec) -> str:
    return str(json.loads(node("key", "show", "--json").stdout)["card"])


def without_ipv4(directory: Path) -> Meshsec:
    """Set up a third node, whose card has no IPv4 address."""
    config = directory / "meshsec.toml"
    config.parent.mkdir()
    content = """\
node = { name = "c" }
routing = { interfaces = ["mesh0"] }
paths = { peers = "peers", state = "state", run = "run" }
"""
    config.write_text(content)
    run: Meshsec = lambda *arguments: CliRunner().invoke(main, ["--config", str(config), *arguments])  # noqa: E731
    assert run("init").exit_code == 0
    return run


def test_networks_are_taken_from_the_addresses_on_a_peers_card(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    networks = ("0.0.0.0/0", ["b"]), ("::/0", ["b", "c", "fd77::9"]), ("10.4.0.0/16", ["c"]), ("10.5.0.0/16", ["d"])
    entries = ", ".join(f'{{ prefix = "{prefix}", from = {json.dumps(names)} }}' for prefix, names in networks)
    config.write_text(config.read_text().replace("[routing]", f"[routing]\naccept = [{entries}]"))
    assert "network" not in tomllib.loads(meshsec("export", "olsrv2d").stdout)["accept"]
    open_networks(tmp_path, *(prefix for prefix, _ in networks))
    assert meshsec("peer", "add", "b", card(boat)).exit_code == 0
    assert meshsec("peer", "add", "c", card(without_ipv4(tmp_path / "c"))).exit_code == 0
    shown = {name: json.loads(meshsec("peer", "show", name, "--json").stdout) for name in "bc"}
    both = [shown[name][key] for name in "bc" for key in ("address", "locator")]
    result = meshsec("export", "olsrv2d")
    assert tomllib.loads(result.stdout)["accept"]["network"] == [
        {"prefix": "0.0.0.0/0", "from": ["10.77.0.2"]},
        {"prefix": "::/0", "from": [*both, "fd77::9"]},
    ]
    assert "10.4.0.0/16 from 'c': its card has no IPv4 address" in result.stderr
    assert "10.5.0.0/16 from 'd': there is no such peer; known: b, c; `meshsec peer add d CARD`" in result.stderr


def test_olsrd2_takes_no_network_in_the_clear_from_some_alone(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    accept = 'accept = [{ prefix = "10.1.0.0/16", from = ["b"] }, { prefix = "::/0", from = ["b"] }]'
    config.write_text(config.read_text().replace("[routing]", f"[routing]\n{accept}"))
    assert meshsec("export", "olsrd2").exit_code == 0, "meshsecd alone leads to what is protected"
    open_networks(tmp_path, "::/0")
    refused = meshsec("export", "olsrd2")
    assert refused.exit_code != 0
    assert "routing.accept.1.prefix: ::/0 is not allowed with olsrd2; allowed: " in refused.stderr


def test_with_esp_in_the_kernel_the_address_is_announced(meshsec: Meshsec, own: dict[str, Any], tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("libipsec", "kernel"))
    assert tomllib.loads(meshsec("export", "olsrv2d").stdout)["originators"] == [own["address"], "10.77.0.1"]


def test_with_libreswan_esp_counts_as_in_the_kernel_whatever_this_kernel_can_do(
    meshsec: Meshsec, own: dict[str, Any], tmp_path: Path
) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace('esp = "libipsec"', 'daemon = "libreswan"'))
    assert tomllib.loads(meshsec("export", "olsrv2d").stdout)["originators"] == [own["address"], "10.77.0.1"]


def test_link_metrics_reach_both_routers(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    routing = """\
interfaces = ["mesh0", "eth0", "mesh1"]
hello_validity = 7.0
metric = 5000
willingness = 3
attached = [{ prefix = "10.9.0.0/16", metric = 9 }]
[routing.interface.eth0]
metric = 26
hello_interval = 1.0
[routing.interface.mesh1]
metric = "hop"
[ike]
"""
    before, _, after = config.read_text().partition("[routing]")
    config.write_text(f"{before}[routing]\n{routing}{after.partition('[ike]')[2]}")
    open_networks(tmp_path, "10.9.0.0/16")
    exported = tomllib.loads(meshsec("export", "olsrv2d").stdout)
    assert (exported["metric"], exported["willingness"]) == (5000, 3)
    assert exported["interface"] == [
        {"name": "mesh0", "hello_validity": 7.0},
        {"name": "eth0", "hello_interval": 1.0, "metric": 26},
        {"name": "mesh1", "hello_validity": 7.0, "metric": "hop"},
    ]
    assert exported["attached"] == [{"prefix": "10.9.0.0/16", "distance": 1, "metric": 9}]
    refused = meshsec("export", "olsrd2")
    assert refused.exit_code == 1
    assert (
        "olsrd2 has no key for routing.metric, routing.willingness, routing.interface.eth0.metric, " in refused.output
    )


@pytest.mark.parametrize(
    ("given", "asked"), [("", "prefer"), ('signatures = "prefer"', "prefer"), ('signatures = "require"', "require")]
)
def test_a_router_that_looks_at_signatures_has_its_own_signed(
    meshsec: Meshsec, tmp_path: Path, given: str, asked: str
) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("[routing]", f"[routing]\n{given}"))
    exported = tomllib.loads(meshsec("export", "olsrv2d").stdout)
    assert (exported["signatures"], exported["signer"]) == (asked, "/run/olsrv2-signer/sign.sock")


def test_a_router_that_is_to_sign_nothing_has_no_signer(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("[routing]", '[routing]\nsignatures = "off"'))
    assert {"signatures", "signer"}.isdisjoint(tomllib.loads(meshsec("export", "olsrv2d").stdout))


@pytest.mark.parametrize("given", ["", 'signatures = "off"'])
def test_olsrd2_is_asked_for_no_signatures(meshsec: Meshsec, tmp_path: Path, given: str) -> None:
    config = tmp_path / "a/meshsec.toml"
    plain = config.read_text().replace("hello_interval = 0.5", "")
    config.write_text(plain.replace("[routing]", f'[routing]\ndaemon = "olsrd2"\n{given}'))
    exported = meshsec("export", "olsrd2")
    assert exported.exit_code == 0, exported.output
    assert "sign" not in exported.output


@pytest.mark.parametrize("asked", ["prefer", "require"])
def test_olsrd2_cannot_be_asked_for_signatures(meshsec: Meshsec, tmp_path: Path, asked: str) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("[routing]", f'[routing]\ndaemon = "olsrd2"\nsignatures = "{asked}"'))
    refused = meshsec("export", "olsrd2")
    assert refused.exit_code != 0
    assert "routing.signatures" in refused.output
    assert "allowed: off with daemon = 'olsrd2', which neither signs nor verifies" in refused.output


def test_the_exported_overlayd_waits_for_meshsecd_to_permit_peers(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    refused = meshsec("export", "overlayd")
    assert refused.exit_code == 1
    assert "overlay.enabled is false" in refused.stderr
    with config.open("a") as file:
        file.write("[overlay]\nenabled = true\n")
    exported = meshsec("export", "overlayd").stdout
    assert tomllib.loads(exported) == {
        "key": str(tmp_path / "a/state/node.key"),
        "permit": "control",
        "tun": {"name": "overlay0", "mtu": 1396, "address": False},
        "ethernet": [{"device": "mesh0", "beacon": "send"}],
    }
    config.write_text(config.read_text() + 'tun = "o1"\nsocket = "/run/o1.sock"\n')
    exported = meshsec("export", "overlayd").stdout
    assert tomllib.loads(exported)["tun"]["name"] == "o1"
    assert tomllib.loads(exported)["control"] == {"socket": "/run/o1.sock"}


def test_the_configuration_of_olsrd2_is_exported(meshsec: Meshsec, own: dict[str, Any]) -> None:
    lines = meshsec("export", "olsrd2").stdout.splitlines()
    at = lines.index("[olsrv2]")
    hosts = ("fc00::/7", "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
    assert lines[at + 1 : at + 11] == [
        f"originator {own['locator']}/128",
        "originator 10.77.0.1/32",
        "originator default_reject",
        *(f"routable_acl {one}" for one in hosts),
        "routable_acl first_reject",
        "routable_acl default_reject",
    ]
    assert lines[at + 11 : at + 14] == ["tc_validity 30.0", "processing_hold_time 30.0", "forward_hold_time 30.0"]
    assert lines[lines.index("[interface=mesh0]") + 1] == "hello_interval 0.5"
    assert not [line for line in lines if "olsrv2_lan" in line], "meshsecd announces what is protected"


@pytest.mark.parametrize(
    ("given", "exported"),
    [
        ("tc_interval = 0.35", ["tc_interval 0.35", "tc_validity 2.1"]),
        ("tc_interval = 2.0\ntc_validity = 300.0", ["tc_interval 2.0", "tc_validity 300.0"]),
        ("tc_validity = 60.0", ["tc_validity 60.0"]),
    ],
)
def test_olsrd2s_messages_are_valid_for_six_intervals_unless_the_operator_says_otherwise(
    meshsec: Meshsec, tmp_path: Path, given: str, exported: list[str]
) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("[routing]", f"[routing]\n{given}"))
    lines = meshsec("export", "olsrd2").stdout.splitlines()
    assert [line for line in lines if line.startswith("tc_")] == exported


def test_olsrd2_announces_and_takes_what_the_policy_opens(meshsec: Meshsec, tmp_path: Path) -> None:
    open_networks(tmp_path, "10.9.0.0/16", "2001:db8:5::/48")
    lines = meshsec("export", "olsrd2").stdout.splitlines()
    assert lines[-4:] == ["[olsrv2_lan=attached0]", "prefix 10.9.0.0/16", "metric 1", "distance 2"]
    assert {"routable_acl 10.9.0.0/16", "routable_acl 2001:db8:5::/48"} <= {*lines}


@pytest.mark.skipif(shutil.which("charon-systemd") is None, reason="strongSwan is not installed")
def test_the_configuration_of_strongswan_is_exported(meshsec: Meshsec, tmp_path: Path) -> None:
    exported = meshsec("export", "strongswan").stdout
    assert "kernel-libipsec" in exported
    assert f"unix://{tmp_path}/a/run/charon.vici" in exported


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("nft") is None, reason="checking rules takes nft and root")
@pytest.mark.parametrize(
    ("kind", "suffix"), [("swanctl", "meshsec-boat-net-"), ("libreswan", "conn meshsec-boat-net-")]
)
def test_networks_in_traffic_selectors_are_exported(
    meshsec: Meshsec, boat: Meshsec, tmp_path: Path, kind: str, suffix: str
) -> None:
    meshsec("peer", "add", "boat", card(boat))
    config = tmp_path / "a/meshsec.toml"
    accept = 'accept = [{ prefix = "172.30.0.0/16", from = ["boat"], by = "selectors" }]'
    config.write_text(config.read_text().replace("[routing]", f"[routing]\n{accept}").replace('"libipsec"', '"kernel"'))
    exported = meshsec("export", kind).stdout
    assert exported.count(suffix) == 1
    assert re.search("(remote_ts = |rightsubnet=)172.30.0.0/16", exported)
    assert "set selected4 { type ipv4_addr; flags interval; auto-merge; elements = { 172.30.0.0/16 } }" in (
        meshsec("export", "nftables").stdout
    )


def test_nft_accepts_the_exported_rules(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    card = json.loads(boat("key", "show", "--json").stdout)
    meshsec("peer", "add", "boat", card["card"])
    exported = meshsec("export", "nftables").stdout
    assert all(address in exported for address in (card["address"], card["locator"], card["ipv4"]))
    command = ["unshare", "--net", "nft", "--check", "--file", "-"]
    assert "overlay0" not in exported
    (config := tmp_path / "a/meshsec.toml").write_text(f"{config.read_text()}[overlay]\nenabled = true\n")
    with_overlay = meshsec("export", "nftables").stdout
    assert 'oifname "overlay0" ip6 daddr @admitted6 accept' in with_overlay
    for text in (exported, with_overlay):
        checked = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_the_exported_chrony_asks_the_masters_that_are_trusted(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    """Masters must be trusted peers, because time from others would not be protected."""
    refused = meshsec("export", "chrony")
    assert (refused.exit_code, "there is no [time]" in refused.output) == (1, True)
    (config := tmp_path / "a/meshsec.toml").write_text(f'{config.read_text()}[time]\nmasters = ["boat", "rescue-1"]\n')
    unknown = meshsec("export", "chrony")
    assert (unknown.exit_code, "'boat' is neither this node nor a trusted peer" in unknown.output) == (1, True)
    card = json.loads(boat("key", "show", "--json").stdout)
    meshsec("peer", "add", "boat", card["card"])
    exported = meshsec("export", "chrony").stdout
    assert f"server {card['address']} iburst" in exported
    assert "local stratum 10 orphan" in exported


def test_a_refused_card_opens_nothing(meshsec: Meshsec, tmp_path: Path) -> None:
    """Unknown nodes are dropped even where the policy allows them, because the card's peer looks like one."""
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write('[policy]\nunknown_nodes = "allow"\n')
    assert 'unknown_out" drop' not in meshsec("export", "nftables").stdout
    (tmp_path / "a/peers/boat.card").write_text("garbage")
    doubtful = meshsec("export", "nftables")
    assert doubtful.exit_code == 0
    assert "boat.card: the text begins with 'garbage'" in doubtful.stderr
    assert 'unknown_out" drop' in doubtful.stdout


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="giving privileges up takes root")
def test_without_privileges_the_kernel_is_not_misjudged(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace("libipsec", "auto"))
    program = "from meshsec.cli import main; main()"
    unprivileged = ["setpriv", "--bounding-set=-all", sys.executable, "-c", program]
    arguments = ["--config", str(config), "export", "olsrv2d"]
    done = subprocess.run([*unprivileged, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the kernel is asked, which takes root" in done.stderr


FIFO = '[scheduling]\nprofile = "fifo"\n'


def test_the_exported_drop_ins_have_one_text_for_each_unit(meshsec: Meshsec, tmp_path: Path) -> None:
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write(FIFO)
    exported = meshsec("export", "systemd").stdout
    assert exported.count("# /etc/systemd/system/") == 7
    charon = exported.partition("meshsec-ike.service.d/50-meshsec-scheduling.conf\n")[2].partition("# /etc")[0]
    assert "CPUSchedulingPolicy=rr\nCPUSchedulingPriority=20\n" in charon


def test_what_a_gateway_probes_is_allowed_to_its_unit(meshsec: Meshsec, tmp_path: Path) -> None:
    assert "IPAddressAllow" not in meshsec("export", "systemd").stdout
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write('[gateway]\nprobe = ["192.0.2.1", "2001:db8::1"]\n')
    assert meshsec("export", "systemd", "--into", str(tmp_path)).exit_code == 0
    text = (tmp_path / "meshsecd.service.d/50-meshsec-gateway.conf").read_text()
    assert text.endswith("\n[Service]\nIPAddressAllow=192.0.2.1\nIPAddressAllow=2001:db8::1\n")


@pytest.mark.parametrize(
    ("profile", "kernel_has_it"), [("fifo", True), ("fifo", False), ("nice", True), ("governor", True)]
)
def test_drop_ins_that_keep_units_from_starting_on_this_kernel_come_with_a_warning(
    meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, kernel_has_it: bool
) -> None:
    """The tests of the scheduler's adapter show which kernels these are."""
    monkeypatch.setattr(scheduler, "has_realtime_groups", lambda: kernel_has_it)
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write(FIFO.replace("fifo", profile))
    done = meshsec("export", "systemd", "--into", str(tmp_path))
    warned = kernel_has_it and profile == "fifo"
    assert done.exit_code == 0
    assert (
        "meshsec-ike.service, meshsec-pluto.service, olsrv2d.service, olsrv2-signer.service will not start"
        in done.stderr
    ) is warned
    assert ("rt_group_sched=0" in done.stderr) is warned
    assert (tmp_path / "meshsec-ike.service.d/50-meshsec-scheduling.conf").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["meshsec-ike.service", "meshsec-pluto.service"])
@pytest.mark.parametrize("profile", ["fifo", "nice", "governor", "paper-2007", "stock"])
def test_systemd_understands_the_drop_ins(meshsec: Meshsec, tmp_path: Path, profile: str, name: str) -> None:
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write(FIFO.replace("fifo", profile))
    units = tmp_path / "units"
    units.mkdir()
    unit = (UNITS / name).read_text()
    (units / name).write_text(re.sub(r"(?m)^ExecStart=(.*\\\n)*.*$", "ExecStart=/bin/true", unit))
    done = meshsec("export", "systemd", "--into", str(units))
    assert done.exit_code == 0
    assert str(units / f"{name}.d/50-meshsec-scheduling.conf") in done.stdout
    assert complaints(units / name) == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_complains_about_a_bad_drop_in(meshsec: Meshsec, tmp_path: Path) -> None:
    """Negative case: systemd complains about a bad class."""
    (tmp_path / "bad.service").write_text("[Service]\nExecStart=/bin/true\nCPUSchedulingPolicy=fast\n")
    assert "fast" in complaints(tmp_path / "bad.service")


def complaints(unit: Path) -> str:
    """Return systemd's complaints about a unit and its drop-ins, without those about missing units."""
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "\n".join(line for line in done.stderr.splitlines() if str(unit.parent) in line)


def test_drop_ins_of_another_profile_do_not_stay_behind(meshsec: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    before = config.read_text()
    config.write_text(before + FIFO)
    assert meshsec("export", "systemd", "--into", str(tmp_path)).exit_code == 0
    written = sorted(tmp_path.glob("*.service.d/*.conf"))
    assert "CPUScheduling" in "".join(path.read_text() for path in written)
    config.write_text(before + FIFO.replace("fifo", "stock"))
    assert meshsec("export", "systemd", "--into", str(tmp_path)).exit_code == 0
    assert sorted(tmp_path.glob("*.service.d/*.conf")) == written
    assert "CPUScheduling" not in "".join(path.read_text() for path in written)


def test_an_access_points_password_is_checked_before_hostapd_has_it(
    meshsec: Meshsec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, secret = tmp_path / "a/meshsec.toml", tmp_path / "meshsec.access-password"
    radio = '{ interface = "ap0", ssid = "valley", frequency = 2412 }'
    config.write_text(f'{config.read_text()}\n[access]\nnetworks = ["10.130.0.0/16"]\nradio = {radio}\n')
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    secret.touch(mode=0o600)
    secret.write_text("correct horse")
    assert "sae_password=correct horse" in meshsec("export", "hostapd").stdout
    secret.write_text("1234567")
    refused = meshsec("export", "hostapd")
    assert refused.exit_code == 1
    assert "meshsec.access-password: 7 octets are not allowed; allowed: 8 to 63 octets" in refused.output
    assert "1234567" not in refused.output


def test_only_systemd_has_several_files(meshsec: Meshsec, tmp_path: Path) -> None:
    assert meshsec("export", "olsrv2d", "--into", str(tmp_path)).exit_code == 2
    assert meshsec("export", "systemd", "--into", str(tmp_path / "absent")).exit_code == 2


def test_an_unknown_kind_is_wrong_usage(meshsec: Meshsec) -> None:
    assert meshsec("export", "racoon").exit_code == 2


def trusting(meshsec: Meshsec, boat: Meshsec) -> None:
    meshsec("peer", "add", "boat", json.loads(boat("key", "show", "--json").stdout)["card"])


def values(conf: str, key: str) -> set[str]:
    return {line.partition("=")[2] for line in conf.splitlines() if line.startswith(f"\t{key}=")}


@pytest.fixture
def in_kernel(tmp_path: Path, meshsec: Meshsec, boat: Meshsec) -> None:
    """Set up two nodes with ESP in the kernel that trust each other."""
    for config in tmp_path.glob("*/meshsec.toml"):
        config.write_text(config.read_text().replace('esp = "libipsec"', 'esp = "kernel"'))
    trusting(meshsec, boat)
    trusting(boat, meshsec)


@pytest.mark.usefixtures("in_kernel")
def test_the_exported_libreswan_lets_nothing_pass_and_one_end_initiates(
    meshsec: Meshsec, boat: Meshsec, own: dict[str, Any]
) -> None:
    """The connections let nothing pass in the clear, and one end initiates; tests/interop loads them."""
    conf, other = meshsec("export", "libreswan").stdout, boat("export", "libreswan").stdout
    assert [line for line in conf.splitlines() if line.startswith("conn")] == [
        "conn meshsec-boat",
        "conn meshsec-boat-mesh4",
    ]
    assert values(conf, "leftid") == values(other, "rightid") == {own["address"]}
    assert values(conf, "leftsubnet") == {f"{own['address']}/128", "10.77.0.1/32"}
    for text in (conf, other):
        assert (values(text, "negotiationshunt"), values(text, "failureshunt")) == ({"hold"}, {"none"})
        assert values(text, "negotiationshunt") == {"hold"}
        assert values(text, "authby") == {"secret"}
        assert values(text, "leftupdown") == {"%disabled"}
    assert values(conf, "auto") | values(other, "auto") == {"start", "add"}
    assert "PSK" not in conf


@pytest.mark.usefixtures("in_kernel")
def test_libreswans_secrets_are_for_their_owner_alone_and_the_same_at_both_ends(
    meshsec: Meshsec, boat: Meshsec, tmp_path: Path
) -> None:
    lines = []
    for name, node in (("a", meshsec), ("boat", boat)):
        done = node("export", "libreswan", "--into", str(tmp_path / name))
        assert done.exit_code == 0, done.output
        path = tmp_path / name / "meshsec.secrets"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        lines.append(path.read_text().splitlines()[-1].split())
        assert lines[-1][-1] not in done.output + (tmp_path / name / "meshsec.conf").read_text()
    (one, two, *rest), other = lines
    assert other == [two, one, *rest]
    assert re.fullmatch("0x[0-9a-f]{64}", rest[-1])


@pytest.mark.usefixtures("in_kernel")
def test_algorithms_that_libreswan_lacks_are_named(meshsec: Meshsec, tmp_path: Path) -> None:
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write('[policy]\nike_proposals = ["aes256ccm16-prfsha256-x25519", "aes256gcm16-prfsha384-ecp384"]\n')
        config.write('esp_proposals = ["aes128ccm16-x25519", "aes256gcm16-x448", "aes128-sha256"]\n')
    done = meshsec("export", "libreswan")
    assert done.exit_code == 0
    assert values(done.stdout, "ike") == {"aes_gcm256-sha2_384-dh20"}
    assert values(done.stdout, "esp") == {"aes_ccm128-null-dh31"}
    for told in (done.stderr, done.stdout):
        assert "left out: IKE aes256ccm16-prfsha256-x25519: libreswan has aes256ccm16 in ESP alone" in told
        assert "left out: ESP aes256gcm16-x448: libreswan has no x448" in told
        assert "left out: ESP aes128-sha256: it has no key exchange" in told


@pytest.mark.usefixtures("in_kernel")
@pytest.mark.parametrize("kind", ["libreswan", "swanctl"])
def test_bypassed_traffic_is_named_and_left_to_the_rules(meshsec: Meshsec, tmp_path: Path, kind: str) -> None:
    before = meshsec("export", kind)
    assert "bypass" not in before.output
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write('[policy]\nbypass = [{ prefix = "fd12:3456:789a::/64", reason = "cameras # on deck" }, ')
        config.write('{ prefix = "fd12::9/128", protocol = "tcp", port = 9100, reason = "a printer" }]\n')
    done = meshsec("export", kind)
    told = [
        f"left out: bypass {entry}: for the rules of `meshsec export nftables` alone"
        for entry in ("fd12:3456:789a::/64 (cameras # on deck)", "fd12::9/128 tcp 9100 (a printer)")
    ]
    assert [line for line in done.stderr.splitlines() if "bypass" in line] == told
    assert [line for line in done.stdout.splitlines() if "bypass" in line] == [f"# {line}" for line in told]
    assert configured(done.stdout) == configured(before.stdout)


def configured(conf: str) -> list[str]:
    return [line for line in conf.splitlines() if not line.startswith("#")]


@pytest.mark.usefixtures("in_kernel")
def test_without_a_proposal_that_libreswan_can_do_nothing_is_exported(meshsec: Meshsec, tmp_path: Path) -> None:
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write('[policy]\nike_proposals = ["aes256gcm16-prfsha256-x448"]\n')
    done = meshsec("export", "libreswan", "--into", str(tmp_path / "a"))
    assert done.exit_code == 1
    assert "libreswan can do no IKE proposal of the policy: IKE aes256gcm16-prfsha256-x448: libreswan has no x448" in (
        done.output
    )
    assert not (tmp_path / "a/meshsec.conf").exists()


def test_the_exported_swanctl_has_the_peers_keys_and_no_secret(
    meshsec: Meshsec, boat: Meshsec, own: dict[str, Any], tmp_path: Path
) -> None:
    """The files name the keys and hold no secret; tests/interop loads them."""
    trusting(meshsec, boat)
    trusting(boat, meshsec)
    (into := tmp_path / "swanctl").mkdir()
    done = meshsec("export", "swanctl", "--into", str(into))
    assert done.exit_code == 0, done.output
    conf = (into / "conf.d/meshsec.conf").read_text()
    assert conf == meshsec("export", "swanctl").stdout
    assert [path.name for path in sorted((into / "pubkey").iterdir())] == ["meshsec-boat.pub", "meshsec.pub"]
    assert (into / "pubkey/meshsec.pub").read_bytes() == (tmp_path / "a/state/node.pub").read_bytes()
    assert (into / "pubkey/meshsec-boat.pub").read_bytes() == (tmp_path / "boat/state/node.pub").read_bytes()
    assert (conf.count("auth = pubkey"), conf.count(f"id = {own['address']}")) == (2, 1)
    actions = {
        line.split()[-1]
        for text in (conf, boat("export", "swanctl").stdout)
        for line in text.splitlines()
        if "start_action" in line
    }
    assert actions == {"start", "none"}
    assert (into / "conf.d/meshsec-secrets.conf").read_text().splitlines()[-2:] == ["secrets {", "}"]


def test_swanctl_with_a_peer_that_runs_libreswan(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    trusting(meshsec, boat)
    (into := tmp_path / "swanctl").mkdir()
    done = meshsec("export", "swanctl", "--into", str(into), "--secret", "boat")
    assert done.exit_code == 0, done.output
    conf, secrets = into / "conf.d/meshsec.conf", into / "conf.d/meshsec-secrets.conf"
    assert conf.read_text().count("auth = psk") == 2
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    (secret,) = re.findall("secret = 0x([0-9a-f]{64})\n", secrets.read_text())
    assert secret not in conf.read_text() + done.output
    assert not (into / "pubkey").exists()


def test_secrets_are_for_peers_and_for_swanctl(meshsec: Meshsec) -> None:
    unknown = meshsec("export", "swanctl", "--secret", "boat")
    assert (unknown.exit_code, "--secret boat: no such peer" in unknown.output) == (1, True)
    assert meshsec("export", "libreswan", "--secret", "boat").exit_code == 2


def test_libreswan_has_esp_in_the_kernel_alone(meshsec: Meshsec) -> None:
    done = meshsec("export", "libreswan")
    assert (done.exit_code, "libreswan has ESP in the kernel alone" in done.output) == (1, True)


def test_the_next_key_is_announced_as_an_address_of_this_router(
    meshsec: Meshsec, own: dict[str, Any], tmp_path: Path
) -> None:
    open_networks(tmp_path, "10.9.0.0/16")
    following = json.loads(meshsec("key", "next", "--json").stdout)
    exported = tomllib.loads(meshsec("export", "olsrv2d").stdout)
    assert exported["originators"][0] == own["locator"]
    assert {"prefix": f"{following['locator']}/128", "distance": 0} in exported["attached"]
    by_olsrd2 = meshsec("export", "olsrd2").stdout.splitlines()
    assert by_olsrd2[-3:] == [f"prefix {following['locator']}/128", "metric 1", "distance 1"], "it allows no 0"
    assert meshsec("key", "end", "--force").exit_code == 0
    exported = tomllib.loads(meshsec("export", "olsrv2d").stdout)
    assert exported["originators"][0] == following["locator"]
    assert [network["prefix"] for network in exported["attached"]] == ["10.9.0.0/16"]

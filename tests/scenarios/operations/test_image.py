"""The vehicle image: two machines boot it by UEFI, make their keys, let nobody in, and protect their user data.

Vehicle a gets no password, b gets one: b can be asked, and a shows that nobody can log in without one. Trust is set up
as with real vehicles: b's operator types a's card, and a finds b's card at its next start, which follows a power cut. b
gets a whole configuration and has two simulated radios besides its cable, which hear each other. By the second of them
it is an access point, too.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.basics.places import BUILD
from tests.lab.machines import vehicle
from tests.lab.machines.vehicle import Link, Vehicle
from tests.lab.net.packets import MARK, Kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BOOT = 900.0
"""Seconds for what takes a minute on two free cores: a machine that waits has not failed."""
COMMAND = 300.0
PASSWORD = "correct horse"  # noqa: S105  known to this file's reader only
CARD = r"card +(meshsec1\w+)$"
ADDRESS = r"address +(fc[0-9a-f:]+)$"
UP = r"Reached target .*multi-user\.target"
RADIOS = ("wlan0", "wlan1")
AP = "ap0"
SERVICES = (
    *("meshsec-firewall", "meshsec-ike", "meshsecd", "olsrv2d", "chrony", "systemd-networkd", "systemd-journald"),
    *("meshsec-provision", "meshsec-card", *(f"meshsec-radio@{radio}" for radio in RADIOS)),
    *("meshsec-clients", "meshsec-dnsmasq", "meshsec-hostapd", "meshsec-names", "meshsec-dns-sd"),
)
CONFIG = f"""\
[routing]
interfaces = {json.dumps([vehicle.INTERFACE, *RADIOS])}
telnet = "127.0.0.1:2009"

[scheduling]
profile = "governor"

[radio]
mesh_id = "rescue"
frequency = 2412
security = "sae"

[access]
networks = ["10.130.0.0/16", "fd12:3456:789a:1::/64"]
radio = {{ interface = "{AP}", shares = "{RADIOS[1]}", ssid = "crew", frequency = 2412 }}
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Vehicle, Vehicle]]:
    """Boot vehicles a and b on one link for the first time and log in as root on b."""
    _need_image()
    directory, logs = tmp_path_factory.mktemp("vehicles"), BUILD / "artifacts" / "image"
    for old in logs.glob("*"):
        old.unlink()
    with Link() as link, Vehicle("a", link, directory, logs) as a, Vehicle("b", link, directory, logs) as b:
        a.start("b", _credentials("a"))
        secrets = {"meshsec.sae-password": "only the crew knows", "meshsec.access-password": "and its phones"}
        given = {"meshsec.name": "b", "meshsec.config": CONFIG}
        b.start("a", given | secrets | _password(), vehicle.RADIOS)
        a.console.wait(UP, BOOT)
        b.log_in(PASSWORD, BOOT)
        b.run("systemctl is-system-running --wait", BOOT)
        yield a, b


def _need_image() -> None:
    if obstacle := vehicle.obstacle():
        pytest.skip(obstacle)


def _credentials(name: str) -> dict[str, str]:
    return {"meshsec.name": name, "meshsec.interface": vehicle.INTERFACE}


def _password() -> dict[str, str]:
    return {"meshsec.root-password": vehicle.password_hash(PASSWORD)}


def test_it_boots_into_a_working_node_on_a_realtime_kernel(pair: tuple[Vehicle, Vehicle]) -> None:
    _, b = pair
    assert b.run("systemctl is-system-running", COMMAND) == (0, "running"), _failed(b)
    assert b.run(f"systemctl is-active {' '.join(SERVICES)}", COMMAND) == (0, "\n".join(["active"] * len(SERVICES)))
    # The file is of Debian's kernel; a kernel of ours shows the feature in its version only.
    assert b.run("cat /sys/kernel/realtime 2>/dev/null || uname -v | grep -c PREEMPT_RT", COMMAND) == (0, "1")


def test_its_radios_join_their_mesh_and_the_router_takes_them(pair: tuple[Vehicle, Vehicle]) -> None:
    _, b = pair
    radio = f"iw dev {RADIOS[0]}"
    mesh = b.run(f"{radio} info; {radio} get mesh_param mesh_fwding", COMMAND)[1]
    assert "type mesh point" in mesh, mesh
    assert mesh.splitlines()[-1] == "0", "OLSRv2 routes, not 802.11s"
    heard = f"timeout {COMMAND:.0f} sh -c 'until {radio} station dump | grep -q ESTAB; do sleep 1; done'"
    assert b.run(heard, 2 * COMMAND) == (0, ""), b.run("journalctl --no-pager -u 'meshsec-radio@*' | tail -40", COMMAND)
    stations = b.run(f"{radio} station dump", COMMAND)[1]
    assert re.search(r"MFP:\s+yes", stations), f"{stations}\nnot by SAE"
    answer = b.run("(exec 3<>/dev/tcp/127.0.0.1/2009; echo '/nhdpinfo interface/quit' >&3; cat <&3)", COMMAND)[1]
    assert all(name in answer for name in RADIOS), answer
    cable = f"systemctl show --property ActiveState,ConditionResult --value meshsec-radio@{vehicle.INTERFACE}"
    assert b.run(cable, COMMAND) == (0, "inactive\nno"), "a cable needs no radio"


def test_it_is_an_access_point_by_the_radio_of_its_mesh(pair: tuple[Vehicle, Vehicle]) -> None:
    _, b = pair
    serving = f"timeout {COMMAND:.0f} sh -c 'until iw dev {AP} info | grep -q channel; do sleep 1; done'"
    assert b.run(serving, 2 * COMMAND) == (0, ""), b.run("journalctl --no-pager -u meshsec-hostapd | tail -20", COMMAND)
    shown = b.run(f"iw dev {AP} info; iw dev {RADIOS[1]} info", COMMAND)[1]
    assert re.findall(r"type (.+)", shown) == ["AP", "mesh point"], shown
    (phy,) = set(re.findall(r"wiphy (\d+)", shown))
    assert phy, "both are one radio"
    assert b.run("grep -c '^dhcp-range=10.130.0.2' /etc/meshsec/dnsmasq.conf", COMMAND) == (0, "1")
    rendered = "/run/meshsec-hostapd/hostapd.conf"
    assert b.run(f"grep '^ssid2' {rendered}; stat -Lc %a {rendered}", COMMAND) == (0, "ssid2=63726577\n600")
    members = b.run("ls /sys/class/net/meshsec-clients/brif", COMMAND)
    assert members == (0, AP)
    (check,) = [one for one in json.loads(b.run("meshsec doctor --json", COMMAND)[1])["checks"] if AP in one["name"]]
    assert (check["level"], check["found"]) == ("ok", f"2412 MHz, on the radio of {RADIOS[1]}")


def test_its_daemons_have_the_classes_of_their_profile(pair: tuple[Vehicle, Vehicle]) -> None:
    _, b = pair
    view = json.loads(b.run("meshsec explain --scheduling --json", COMMAND)[1])
    assert view["profile"] == "governor"
    assert view["problem"] == ""
    has = {one["service"]: one for one in view["services"]}
    assert {name: one["problem"] for name, one in has.items() if one["problem"]} == {}
    assert has["charon"]["threads"] > 1
    assert view["governor"]["ceiling"] == len(view["governor"]["ladder"]) - 1, "the strongest class is not allowed"
    checks = json.loads(b.run("meshsec doctor --json", COMMAND)[1])["checks"]
    assert [one["found"] for one in checks if one["name"] == "scheduling" and one["level"] != "ok"] == []
    assert [one for one in checks if one["level"] == "fail"] == []
    assert b.run("systemctl show --property Nice --value olsrv2d", COMMAND) == (0, "-15"), "by its drop-in"


def test_its_root_is_read_only_and_its_state_is_not(pair: tuple[Vehicle, Vehicle]) -> None:
    _, b = pair
    b.run("mount -o remount,rw /", COMMAND)  # erofs accepts the command and remains read-only.
    for folder in ("/", "/usr/bin", "/etc"):
        status, said = b.run(f"touch {folder}/written", COMMAND)
        assert (status, "Read-only file system" in said) == (1, True), said
    assert b.run("touch /var/written && touch /etc/meshsec/written && rm /etc/meshsec/written", COMMAND) == (0, "")
    assert b.run("stat -c %a:%U /var/lib/meshsec/node.key", COMMAND) == (0, "600:root")


def test_it_says_what_it_contains_and_under_which_licences(pair: tuple[Vehicle, Vehicle]) -> None:
    _, b = pair
    programs = ("meshsec-olsrv2d", "meshsec-overlayd")
    files = [f"/usr/share/doc/{name}/{name}.cdx.json" for name in ("meshsec", *programs)]
    files += [f"/usr/share/doc/{name}/crate-notices" for name in programs]
    files += ["/usr/share/doc/meshsec/page-notices", "/usr/share/doc/libc6/copyright"]
    assert b.run(f"find {' '.join(files)} -size +0 -perm 644 | wc -l", COMMAND) == (0, str(len(files)))
    image = vehicle.board().image
    listed = json.loads(image.with_suffix(".cdx.json").read_text(encoding="utf-8"))["components"]
    debian = {(one["name"], one["version"]) for one in listed if one["purl"].startswith("pkg:deb/debian/")}
    packages = image.resolve().with_suffix(".packages").read_text(encoding="utf-8")
    lines = (line.split("\t") for line in packages.splitlines())
    assert debian == {(name.partition(":")[0], version) for name, version in lines}
    assert len(debian) > 100
    for kind in ("cargo", "npm", "pypi"):
        assert any(one["purl"].startswith(f"pkg:{kind}/") for one in listed), kind


def test_without_a_password_given_nobody_gets_a_prompt(pair: tuple[Vehicle, Vehicle]) -> None:
    a, b = pair
    assert "login:" in b.console.text, "with one there is a prompt: that is what is looked for below"
    a.console.type("\nroot\n\n")
    # b has shown its prompt long ago, so everything that a starts at boot has been started too.
    assert "login:" not in a.console.text
    assert "Password:" not in a.console.text
    assert b.run("findmnt -no TARGET /etc/shadow; cut -d: -f2 /etc/shadow | grep -c '[$]'", COMMAND) == (
        0,
        "/etc/shadow\n1",
    ), "root alone has a password, and not on the disk"


def test_two_vehicles_protect_what_they_say_after_one_lost_its_power(pair: tuple[Vehicle, Vehicle]) -> None:
    a, b = pair
    card_a, address_a = a.console.wait(CARD, BOOT)[1], a.console.wait(ADDRESS, BOOT)[1]
    card_b = b.console.wait(CARD, BOOT)[1]
    assert b.run(vehicle.quoted("meshsec", "peer", "add", "a", card_a), COMMAND)[0] == 0
    named = f"timeout {COMMAND:.0f} sh -c 'until getent hosts a.mesh; do sleep 0.2; done'"
    assert b.run(named, 2 * COMMAND)[1].split() == [address_a, "a.mesh"], "in a file on the state partition"
    assert b.run("getent ahosts localhost | grep -c STREAM", COMMAND) == (0, "2")
    ping = f"ping -6 -q -p {MARK.hex()} -c 3"
    assert b.run(f"{ping} -i 0.2 -w 5 {address_a}", COMMAND)[0] != 0, "a does not trust b yet"
    assert b.sent_and_received()[Kind.ESP] == 0

    a.cut_power()
    a.start("b", _credentials("other") | {"meshsec.peers": f"# who is trusted\nb {card_b}\n"})
    # Before the SA is established the XFRM policies may refuse the socket, and ping ends at once.
    asked = f"timeout {BOOT:.0f} sh -c 'until {ping} -w 10 {address_a}; do sleep 1; done'"
    status, said = b.run(asked, BOOT + COMMAND)
    assert status == 0, said
    assert a.console.wait(CARD, BOOT)[1] == card_a, "the key and the name outlive a power cut"

    carried = b.sent_and_received()
    assert carried[Kind.ESP] >= 6, carried
    assert carried[Kind.CLEAR] == 0, carried
    assert "mode transport" in b.run("ip xfrm state", COMMAND)[1]
    (peer,) = json.loads(b.run("meshsec status --json", COMMAND)[1])["peers"]
    assert peer["state"] == "protected", peer
    assert b.run("meshsec doctor", COMMAND)[0] in (0, 3), "nothing is wrong on a vehicle"


def test_a_bad_configuration_is_refused_and_the_vehicle_stays_closed(tmp_path: Path) -> None:
    _need_image()
    bad = {"meshsec.config": CONFIG.replace("frequency", "frequenzy"), "meshsec.interface": vehicle.INTERFACE}
    with Link() as link, Vehicle("c", link, tmp_path, BUILD / "artifacts" / "image") as c:
        c.start("a", bad | _password())
        c.console.wait(r"meshsec\.config:\d+: radio\.frequenzy: is not a known key; perhaps 'frequency' is meant", BOOT)
        c.log_in(PASSWORD, BOOT)
        assert re.search(CARD, c.console.text, re.MULTILINE) is None
        assert c.run("systemctl is-system-running --wait", BOOT) == (1, "degraded")
        failed = c.run("systemctl list-units --failed --plain --no-legend | cut -d' ' -f1", COMMAND)
        assert failed == (0, "meshsec-provision.service")
        kept = "find /etc/meshsec /etc/olsrv2d /var/lib/meshsec -mindepth 1 2>/dev/null | wc -l"
        assert c.run(kept, COMMAND) == (0, "0"), "nothing is half applied"
        assert c.run("systemctl is-active meshsec-ike meshsecd olsrv2d", COMMAND)[1].split() == ["inactive"] * 3
        rules = c.run("nft list table inet meshsec", COMMAND)[1]
        assert "ip6 daddr fc00::/7 counter" in rules
        assert "UP" not in c.run(f"ip -br link show {vehicle.INTERFACE}", COMMAND)[1].split()
        assert c.sent_and_received().total() == 0, "not one packet has left"


def _failed(b: Vehicle) -> str:
    return b.run(
        "systemctl --failed --no-pager; systemctl list-jobs --no-pager; journalctl -b -p 3 --no-pager | tail", COMMAND
    )[1]

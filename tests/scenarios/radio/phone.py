"""A phone: an unmodified wpa_supplicant with a radio, and the access points of three access nodes (hostapd)."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.basics import programs
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.node.node import Node
from tests.lab.radio import medium
from tests.lab.radio.medium import Radio
from tests.lab.roaming import WLAN, Roaming, Station, roaming

PASSWORD = "only the valley knows"  # noqa: S105  # a test's own
AP = "ap0"
PLACES = "abc"
"""The access nodes."""
RADIO: dict[str, str | int] = {"interface": AP, "ssid": "valley", "frequency": 2412}
_REFUSALS = ("WRONG_KEY", "CTRL-EVENT-AUTH-REJECT", "SSID-TEMP-DISABLED")
_SUPPLICANT = f"""
ctrl_interface={{directory}}
network={{{{
    ssid="{RADIO["ssid"]}"
    scan_freq={RADIO["frequency"]}
    ieee80211w=1
    disabled=1
}}}}
"""


@dataclass(frozen=True)
class Phone(Station):
    """The client by radio. It is told to which access point to go, as a phone decides by signal."""

    radio: Radio | None = None
    directory: Path = Path()

    @property
    def mac(self) -> str:
        """Return its MAC address."""
        assert self.radio is not None
        return self.radio.address

    def say(self, *arguments: str) -> str:
        """Command wpa_supplicant."""
        return self.run("wpa_cli", "-p", str(self.directory), "-i", WLAN, *arguments, check=False)

    def at(self) -> str:
        """Return the access point's MAC address; empty while it has joined none."""
        status = dict(line.split("=", 1) for line in self.say("status").splitlines() if "=" in line)
        return status.get("bssid", "") if status.get("wpa_state") == "COMPLETED" else ""

    def move(self, name: str) -> None:
        """Go to an access point. A phone whose association fails is back at the former one, and tries again."""
        target = bssid(self.nodes[name])
        if self.at() != target:
            wait_until("the access point in sight", lambda: target in self._scanned(), [], 60)
        wait_until(f"the phone at {name}", lambda: self._has_moved(target), [], 60, last=lambda: self.say("status"))

    def _has_moved(self, target: str) -> bool:
        where = self.at()
        if where and where != target:
            self.say("roam", target)
        return where == target

    def begin(self, key_mgmt: str, password: str = PASSWORD) -> None:
        """Join an access point, whichever, by a way of authentication (wpa_supplicant.conf)."""
        wait_until("wpa_supplicant", lambda: self.say("ping").startswith("PONG"), [], 30)
        self.say("disable_network", "0")
        self.log.write_bytes(b"")
        settings = {"key_mgmt": key_mgmt, "psk": f'"{password}"', "sae_password": f'"{password}"'}
        for name, value in settings.items():
            assert "OK" in self.say("set_network", "0", name, value), name
        self.say("enable_network", "0")

    def was_told_to_wait(self) -> bool:
        """Tell whether an access point took the phone for present still (status 30, IEEE 802.11-2020, table 9-50)."""
        return "status_code=30" in self.log.read_text("utf-8")

    def is_refused(self) -> bool:
        """Tell whether an access point has refused the password."""
        return any(event in self.log.read_text("utf-8") for event in _REFUSALS)

    @property
    def log(self) -> Path:
        """Return what wpa_supplicant has said since then."""
        return self.directory / "supplicant.log"

    def _scanned(self) -> str:
        found = self.say("scan_results")
        if any(bssid(node) not in found for node in self.nodes.values()):
            self.say("scan")
        return found


def bssid(node: Node) -> str:
    """Return the MAC address of a node's access point."""
    return node.run("cat", f"/sys/class/net/{AP}/address").stdout.strip()


@contextmanager
def phone(label: str, directory: Path) -> Iterator[Roaming]:
    """Start the mesh with access points, and a phone that has not joined one."""
    radios: list[Radio] = []
    running: list[subprocess.Popen[bytes]] = []

    def made(lab: Lab) -> Station:
        namespace = lab.outsider("phone")
        radios.append(medium.station_radio(namespace, WLAN))
        found = Phone(namespace, "", 1, {name: lab[name] for name in PLACES}, radios[0], directory)
        for name, value in (("all.forwarding", 0), ("all.accept_dad", 1), (f"{WLAN}.accept_ra", 2)):
            found.sysctl(f"net.ipv6.conf.{name}", value)
        return found

    try:
        with roaming(label, made, PLACES, ports=[], radio=RADIO) as mesh:
            for name in PLACES:
                radios.append(medium.station_radio(mesh.lab[name].namespace, AP))
                running.append(_access_point(mesh.lab[name], directory))
            running.append(_supplicant(mesh.station, directory))
            yield mesh
    finally:
        for process in running:
            process.kill()
            process.wait()
        for radio in radios:
            radio.give_back()


def _access_point(node: Node, directory: Path) -> subprocess.Popen[bytes]:
    """Start hostapd as its unit does."""
    secret = directory / f"credentials-{node.name}"
    secret.mkdir(mode=0o700)
    (secret / "meshsec.access-password").write_text(PASSWORD, encoding="ascii")
    (secret / "meshsec.access-password").chmod(0o600)
    argv = [programs.meshsec(), "--config", str(node.config), "export", "hostapd"]
    written = node.run("env", f"CREDENTIALS_DIRECTORY={secret}", *argv).stdout
    config = directory / f"hostapd-{node.name}.conf"
    config.touch(mode=0o600)
    config.write_text(written, encoding="utf-8")
    return _started(node.namespace, node.logs / "hostapd.log", "hostapd", str(config))


def _supplicant(station: Station, directory: Path) -> subprocess.Popen[bytes]:
    config = directory / "supplicant.conf"
    config.write_text(_SUPPLICANT.format(directory=directory), encoding="ascii")
    argv = ["wpa_supplicant", "-D", "nl80211", "-i", WLAN, "-c", str(config)]
    return _started(station.namespace, directory / "supplicant.log", *argv)


def _started(namespace: str, log: Path, *argv: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        command = ["ip", "netns", "exec", namespace, *argv]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(os.environ))

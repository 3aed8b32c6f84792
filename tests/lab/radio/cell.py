"""An access point with two clients, a server behind a wire, and traffic of others on that wire.

It is the network of Agosto-Padilla's dissertation (Towson University 2016, figure 1): the access point is on a switch
(S0) that a router (R1) reaches by a link of 100 Mbit/s, and everything else is faster. The traffic of others comes from
beyond the router too, and ends at a sink on the switch. His routers R2 to R4, which only forward, are left out.

The access point is hostapd, the clients are wpa_supplicant, all on radios of mac80211_hwsim; the network is open.
Frames arrive at once, or take their time on a modelled air (``Cell.air``).
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from threading import Barrier, Thread
from typing import Self

from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance
from tests.lab.net.links import End, Link
from tests.lab.radio import medium
from tests.lab.radio.airmedium import AirMedium, Place
from tests.lab.radio.medium import Radio

CLIENTS = ("first", "second")
PAGE = 320_000
"""Octets of the page that a client asks for."""
NARROW = 100
"""Mbit/s from the router to the switch."""
WIDE = 1000
QUEUE = 100
"""Frames that wait before that link at most. The dissertation does not say how many its router held."""
TCP_PART = 0.9
"""Part of the others' traffic that is TCP; the rest is UDP."""
_FRAME, _BURST = 1514, 2
"""Octets of a frame, and frames that the link sends at once after a pause."""
_WLAN, _AP, _SWITCH = "wlan0", "ap0", "s0"
_SERVER, _SINK = "10.20.1.2", "10.20.2.20"
_ADDRESSES = {"first": "10.20.2.11", "second": "10.20.2.12"}
_PORT, _TCP, _UDP = 80, 5201, 5202
_SECONDS = 60.0
_TCP_FLOWS = 4
_HOSTAPD = f"""interface={_AP}
driver=nl80211
bridge={_SWITCH}
ssid=cell
hw_mode=g
channel=1
ieee80211n=1
wmm_enabled=1
"""
_MCS = 4
"""Scheme of all data frames: 39 Mbit/s, as bench-exchanges has. Left alone, mac80211's rate control stays at 13 Mbit/s
on simulated radios, however good the air is (Linux 6.12)."""
_SNR = 40.0
"""Ratio of signal and noise in dB between all three, enough for every rate."""
_AIR_PRIORITY = 50
"""The air waits for no other program (SCHED_FIFO)."""
_SUPPLICANT = 'network={\n    ssid="cell"\n    key_mgmt=NONE\n    scan_freq=2412\n}\n'


@dataclass(frozen=True)
class Fetched:
    """How a client got the page."""

    delay: float
    """Seconds from its request to the page's last octet."""
    throughput: float
    """Mbit/s of all that its radio sent and received meanwhile, repetitions of TCP included, as the dissertation has
    it."""


@dataclass
class Cell:
    """The running network."""

    directory: Path
    radios: list[Radio] = field(default_factory=list)
    _instance: Instance = field(default_factory=Instance)
    _kept: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._instance.end)
            for name in ("server", "others", "router", "switch", "sink", *CLIENTS):
                namespaces.create(self.namespace(name))
            self._wire()
            self._air(stack)
            self._serve(stack)
            self._kept = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def namespace(self, name: str) -> str:
        """Return the namespace of a machine."""
        return self._instance.namespace(name)

    def narrow(self, mbit: int) -> None:
        """Set the rate from the router to the switch."""
        rate = ["rate", f"{mbit}mbit", "burst", str(_BURST * _FRAME), "limit", str(QUEUE * _FRAME)]
        self._run("router", "tc", "qdisc", "replace", "dev", "to-switch", "root", "tbf", *rate)

    def fetch(self, *clients: str) -> dict[str, Fetched]:
        """Let these clients ask for the page at the same moment."""
        together = Barrier(len(clients))
        with ThreadPoolExecutor(len(clients)) as pool:
            jobs = {name: pool.submit(self._fetch, name, together) for name in clients}
            return {name: job.result() for name, job in jobs.items()}

    @contextmanager
    def congested(self, mbit: int) -> Iterator[None]:
        """Let others send so many Mbit/s over the wire, as far as TCP finds room; return when they do."""
        with ExitStack() as stack:
            tcp = ["-p", str(_TCP), "-P", str(_TCP_FLOWS), "-b", f"{mbit * TCP_PART / _TCP_FLOWS:g}M"]
            udp = ["-p", str(_UDP), "-u", "-l", "1400", "-b", f"{mbit * (1 - TCP_PART):g}M"]
            flows = [self._others(stack, *argv) for argv in (tcp, udp)] if mbit else []
            for flow in flows:
                assert flow.stdout
                line = next((line for line in iter(flow.stdout.readline, "") if "bits/sec" in line), "")
                assert line, "the traffic of others has ended"
            yield

    @contextmanager
    def air(self) -> Iterator[None]:
        """Let frames take their time on the air meanwhile: all three stations hear each other, and contend."""
        radios = dict(zip(("ap", *CLIENTS), self.radios, strict=True))
        with AirMedium(self.directory, radios, Place(dict.fromkeys(combinations(radios, 2), _SNR))) as running:
            os.sched_setscheduler(running.pid, os.SCHED_FIFO, os.sched_param(_AIR_PRIORITY))
            yield

    def carried(self) -> int:
        """Return the octets that the sink has received so far."""
        return int(self._run("sink", "cat", "/sys/class/net/to-switch/statistics/rx_bytes"))

    def _run(self, name: str, *argv: str) -> str:
        return run(["ip", "netns", "exec", self.namespace(name), *argv]).stdout

    def _wire(self) -> None:
        self._run("switch", "ip", "link", "add", _SWITCH, "up", "type", "bridge", "forward_delay", "0")
        for name in ("router", "sink"):
            Link.create(End(self.namespace(name), "to-switch"), End(self.namespace("switch"), f"to-{name}"))
            self._run("switch", "ip", "link", "set", f"to-{name}", "master", _SWITCH)
        for number, name in ((1, "server"), (3, "others")):
            Link.create(End(self.namespace(name), "to-router"), End(self.namespace("router"), f"to-{name}"))
            self._address(name, "to-router", f"10.20.{number}.2", f"10.20.{number}.1")
            self._run("router", "ip", "address", "add", f"10.20.{number}.1/24", "dev", f"to-{name}")
        self._run("router", "ip", "address", "add", "10.20.2.1/24", "dev", "to-switch")
        self._address("sink", "to-switch", _SINK, "10.20.2.1")
        self.narrow(NARROW)

    def _address(self, name: str, interface: str, address: str, router: str) -> None:
        self._run(name, "ip", "address", "add", f"{address}/24", "dev", interface)
        self._run(name, "ip", "route", "add", "default", "via", router)
        # As on a real wire: queues hold frames, not what will become forty of them.
        with suppress(FileNotFoundError):
            self._run(name, "ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off")

    def _air(self, stack: ExitStack) -> None:
        for name, interface in (("switch", _AP), *((name, _WLAN) for name in CLIENTS)):
            radio = medium.station_radio(self.namespace(name), interface)
            stack.callback(radio.give_back)
            self.radios.append(radio)
        (self.directory / "hostapd.conf").write_text(_HOSTAPD, encoding="ascii")
        (self.directory / "supplicant.conf").write_text(_SUPPLICANT, encoding="ascii")
        self._start(stack, "switch", "hostapd", str(self.directory / "hostapd.conf"))
        joining = ["wpa_supplicant", "-D", "nl80211", "-i", _WLAN, "-c", str(self.directory / "supplicant.conf")]
        for name in CLIENTS:
            self._start(stack, name, *joining)
        for name in CLIENTS:
            wait_until(f"{name} at the access point", lambda name=name: self._is_joined(name), [], _SECONDS)  # type: ignore[misc]
            self._address(name, _WLAN, _ADDRESSES[name], "10.20.2.1")
        for name, interface in (("switch", _AP), *((name, _WLAN) for name in CLIENTS)):
            self._run(name, "iw", "dev", interface, "set", "bitrates", "ht-mcs-2.4", str(_MCS))

    def _is_joined(self, name: str) -> bool:
        return "authorized:\tyes" in self._run(name, "iw", "dev", _WLAN, "station", "dump")

    def _serve(self, stack: ExitStack) -> None:
        listening = namespaces.within(self.namespace("server"), lambda: socket.create_server((_SERVER, _PORT)))
        stack.callback(listening.close)
        stack.callback(listening.shutdown, socket.SHUT_RDWR)
        Thread(target=_serve, args=(listening,), daemon=True).start()
        for port in (_TCP, _UDP):
            self._start(stack, "sink", "iperf3", "-s", "-p", str(port))
            wait_until("the sink", lambda port=port: f":{port}" in self._run("sink", "ss", "-ltn"), [], _SECONDS)  # type: ignore[misc]

    def _start(self, stack: ExitStack, name: str, *argv: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace(name), *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(os.environ),
            )
        stack.callback(process.wait)
        stack.callback(process.kill)

    def _others(self, stack: ExitStack, *argv: str) -> "subprocess.Popen[str]":
        """Start a flow to the sink, which says every half a second what it sent."""
        command = ["iperf3", "-c", _SINK, "-t", "3600", "-i", "0.5", "--forceflush", *argv]
        flow = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace("others"), *command], stdout=subprocess.PIPE, text=True
        )
        assert flow.stdout
        for end in (flow.stdout.close, flow.wait, flow.kill):
            stack.callback(end)
        return flow

    def _fetch(self, name: str, together: Barrier) -> Fetched:
        namespaces.enter(self.namespace(name))
        before = _octets(self.namespace(name))
        together.wait()
        begun = time.monotonic()
        with socket.create_connection((_SERVER, _PORT), _SECONDS) as sock:
            asked = time.monotonic()
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            left = PAGE
            while left > 0:
                received = sock.recv(1 << 16)
                if not received:
                    raise ConnectionError(f"{left} octets of the page are missing")
                left -= len(received)
            done = time.monotonic()
        octets = _octets(self.namespace(name)) - before
        return Fetched(done - asked, 8e-6 * octets / (done - begun))


def _octets(namespace: str) -> int:
    """Return what a client's radio has sent and received, as its kernel counts."""
    base = f"/sys/class/net/{_WLAN}/statistics"
    shown = run(["ip", "netns", "exec", namespace, "cat", f"{base}/rx_bytes", f"{base}/tx_bytes"]).stdout
    return sum(map(int, shown.split()))


def _serve(listening: socket.socket) -> None:
    """Give the page to whoever asks, each in a thread, until the socket is shut down."""
    page = bytes(PAGE)
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            Thread(target=_answer, args=(connection, page), daemon=True).start()


def _answer(connection: socket.socket, page: bytes) -> None:
    with connection, suppress(OSError):
        asked = b""
        while b"\r\n\r\n" not in asked and len(asked) < 4096:
            if not (more := connection.recv(4096)):
                return
            asked += more
        connection.sendall(page)


def obstacle() -> str | None:
    """Return why this machine cannot run it, or None."""
    return medium.obstacle()


def mbit(octets: int, seconds: float) -> float:
    """Return a rate in Mbit/s."""
    return 8e-6 * octets / seconds


def names(clients: Sequence[str]) -> str:
    """Return whether the clients are alone or a pair, in the dissertation's words."""
    return "paired" if len(clients) > 1 else "single"

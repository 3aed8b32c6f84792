"""Three stations with a radio and an address each, in namespaces of their own: ``c`` is reached through ``b``.

It is for an air that takes time, so it is for a machine whose time follows the executed instructions: the processor is
no part of a result there (tests/guest/test_guest.py boots one).
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.net.instance import RUN
from tests.lab.net.offered import Offer
from tests.lab.radio import medium
from tests.lab.radio.airmedium import AirMedium, Place
from tests.lab.radio.medium import Radio

NAMES = ("a", "b", "c")
INTERFACE = "mesh0"
SNR = 40.0
"""dB; no frame is lost to noise."""
EVERYBODY = Place({("a", "b"): SNR, ("b", "c"): SNR, ("a", "c"): SNR})
PEERING = 30.0
"""Seconds until stations that hear each other are peers: some beacons, and some lost frames."""
_NO_REDIRECTS = [f"net.ipv4.conf.{which}.send_redirects=0" for which in ("all", INTERFACE)]
"""A relay sends packets out where they came in."""


@dataclass(frozen=True)
class Field:
    """The stations by name."""

    radios: Mapping[str, Radio]
    directory: Path

    def medium(self, place: Place) -> AirMedium:
        """Return the air, for a ``with`` block."""
        return AirMedium(self.directory, self.radios, place)

    def wait_peers(self, *pairs: tuple[str, str]) -> None:
        """Wait until these stations have peerings."""
        for first, second in pairs:
            what = f"{first} and {second} are peers"
            wait_until(what, partial(self._are_peers, first, second), [], PEERING)

    def offer(self, source: str, target: str, mbit_s: float) -> Offer:
        """Return a flow between two stations."""
        return Offer(self._end(source), self._end(target), mbit_s)

    def equip(self) -> None:
        """Give each station its address, and what it must know to send without asking: neighbours, and the relay."""
        for name, radio in self.radios.items():
            run(["ip", "netns", "exec", radio.namespace, "sysctl", "-q", "-w", *_NO_REDIRECTS])
            ip = ["ip", "-n", radio.namespace]
            run([*ip, "address", "add", f"{_address(name)}/24", "dev", INTERFACE])
            for other, known in self.radios.items():
                if other != name:
                    argv = ["neighbour", "replace", _address(other), "lladdr", _hardware(known), "dev", INTERFACE]
                    run([*ip, *argv, "nud", "permanent"])
            if name != "b":
                far = "c" if name == "a" else "a"
                run([*ip, "route", "add", _address(far), "via", _address("b"), "dev", INTERFACE])

    def _end(self, name: str) -> tuple[str, str]:
        return self.radios[name].namespace, _address(name)

    def _are_peers(self, first: str, second: str) -> bool:
        both = ((self.radios[first], self.radios[second]), (self.radios[second], self.radios[first]))
        return all(_hardware(other) in one.peers() for one, other in both)


def obstacle() -> str | None:
    """Return why this machine cannot run it, or None."""
    if not os.environ.get(medium.DETERMINISTIC_VARIABLE):
        return "this machine's time does not follow its instructions; tests/guest/test_guest.py boots one"
    return medium.obstacle()


@contextmanager
def field(directory: Path, radio: Callable[[str, str], Radio]) -> Iterator[Field]:
    """Make the stations; ``radio`` gives a namespace its radio with an interface of that name."""
    RUN.mkdir(mode=0o755, exist_ok=True)
    made: dict[str, Radio] = {}
    try:
        for name in NAMES:
            namespace = f"{namespaces.PREFIX}air-{name}"
            namespaces.create(namespace)
            made[name] = radio(namespace, INTERFACE)
        yield Field(made, directory)
    finally:
        for one in made.values():
            one.give_back()
        for name in NAMES:
            namespaces.destroy(f"{namespaces.PREFIX}air-{name}")


def _address(name: str) -> str:
    return f"10.85.0.{1 + NAMES.index(name)}"


def _hardware(radio: Radio) -> str:
    path = f"/sys/class/net/{radio.interface}/address"
    return run(["ip", "netns", "exec", radio.namespace, "cat", path]).stdout.strip()

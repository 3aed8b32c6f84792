"""A real gpsd with a receiver whose place a test chooses: a terminal into which NMEA sentences are written.

`make setup` unpacks gpsd: Debian's package starts a server.
"""

import os
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from operator import xor

from tests.lab.basics.places import BUILD
from tests.lab.basics.processes import Daemon
from tests.lab.node.node import Node

GPSD = BUILD / "gpsd" / "usr" / "sbin" / "gpsd"
_EACH = 0.5
_GEOID = 47.0
"""Metres of the sea level above the ellipsoid, as the receiver says it."""


class Receiver:
    """What the receiver says, twice a second."""

    def __init__(self) -> None:
        self._master, self.terminal = os.openpty()
        tty.setraw(self.terminal)
        self._place: tuple[float, float, float] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def move(self, latitude: float, longitude: float, altitude: float) -> None:
        """Be somewhere: degrees, and metres above the ellipsoid."""
        self._place = latitude, longitude, altitude

    def lose(self) -> None:
        """Say from now on that no satellite is heard."""
        self._place = None

    def close(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()
        os.close(self._master)
        os.close(self.terminal)

    def _run(self) -> None:
        while not self._ended.wait(_EACH):
            os.write(self._master, "".join(map(_sentence, _texts(self._place))).encode())


def _texts(place: tuple[float, float, float] | None) -> list[str]:
    now = datetime.now(UTC)
    time, date = now.strftime("%H%M%S.%f")[:9], now.strftime("%d%m%y")
    if place is None:
        return [f"GPGGA,{time},,,,,0,00,,,M,,M,,", f"GPRMC,{time},V,,,,,,,{date},,,N"]
    latitude, longitude, altitude = place
    where = (
        f"{_angle(latitude, 2)},{'N' if latitude >= 0 else 'S'},{_angle(longitude, 3)},{'E' if longitude >= 0 else 'W'}"
    )
    return [
        f"GPGGA,{time},{where},1,08,0.9,{altitude - _GEOID:.1f},M,{_GEOID},M,,",
        "GPGSA,A,3,01,02,03,04,05,06,07,08,,,,,1.5,0.9,1.2",
        f"GPRMC,{time},A,{where},0.0,0.0,{date},,,A",
    ]


def _angle(degrees: float, digits: int) -> str:
    whole = int(abs(degrees))
    return f"{whole:0{digits}d}{(abs(degrees) - whole) * 60:08.5f}"


def _sentence(text: str) -> str:
    return f"${text}*{reduce(xor, text.encode()):02X}\r\n"


@contextmanager
def receiver(node: Node) -> Iterator[Receiver]:
    """Run gpsd with a receiver on a node."""
    made = Receiver()
    argv = [str(GPSD), "-N", "-n", "-b", os.ttyname(made.terminal)]
    server = Daemon("gpsd", node.namespace, argv, logs=node.logs, sockets=node.run_directory, notifies=False)
    server.start()
    try:
        yield made
    finally:
        server.kill()
        made.close()

"""An RTS threshold that is measured, on real mesh interfaces whose air takes time: kept where it helps, and only there.

Each station has a radio of mac80211_hwsim and runs meshsec-radio, which sees what mac80211 counts and nothing of who
hears whom. Two of them send more to the one between them than the air carries.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from meshsec.adapters.files import rts_note
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net.offered import throughput
from tests.lab.radio import field as stations
from tests.lab.radio import medium
from tests.lab.radio.airmedium import AirMedium, Place, line
from tests.lab.radio.field import EVERYBODY, INTERFACE, NAMES, SNR, Field
from tests.lab.radio.meshsec_radio import Program

SENDERS, MIDDLE = ("a", "c"), "b"
WISH: dict[str, object] = {
    "mesh_id": "air",
    "frequency": 5180,
    "country": "DE",
    "mode": "NOHT",
    "mcast_rate": 6,
    "security": "open",
    "rts_threshold": "measured",
}
"""A channel without the rates of 802.11b."""
RATE = ("set", "bitrates", "legacy-5", "6")
"""6 Mbit/s alone: a frame of 1400 octets takes 2 ms, so that the air is what limits."""
LOAD = 4.0
"""Mbit/s of payload from each sender."""
ROUND = 5.0
USUAL, LONGEST = 50.0, 90.0
"""Seconds of load until every sender has judged: four intervals of ten seconds, and a trial of eight to forty."""
KEPT = "off delivers"
REFUSED = ("0 delivers", "fewer than 10 % of the frames are repeated")
"""What meshsec-radio says of a threshold that it keeps, and of one that it does not keep or does not try."""
PHY = {"phy": "a"}


@dataclass(frozen=True)
class Crew:
    """The stations, the program of each, and the air between them."""

    field: Field
    programs: Mapping[str, Program]
    air: AirMedium

    def move(self, place: Place) -> None:
        """Let other stations hear each other; peerings stay."""
        self.air.move(Place(place.links, PHY))
        wait_until("it is read", lambda: "read again" in self.air.log(), [], 10)

    def load(self) -> float:
        """Send for some seconds. Return the payload that arrives, in Mbit/s."""
        return sum(throughput([self.field.offer(name, MIDDLE, LOAD) for name in SENDERS], ROUND))

    def load_until(self, what: Callable[[str], bool], least: float = ROUND) -> float:
        """Send until this holds for each sender, for so many seconds at least. Return the last payload in Mbit/s."""
        for number in range(1, 1 + round(LONGEST / ROUND)):
            carried = self.load()
            if number * ROUND >= least and all(map(what, SENDERS)):
                return carried
        pytest.fail(f"not within {LONGEST:g} s of load; they say {[self.said(name) for name in SENDERS]}")

    def said(self, name: str) -> str:
        """Return why a station has its threshold, as doctor reads it."""
        return (self.programs[name].directory / rts_note.NAME).read_text(encoding="utf-8").strip()

    def log(self, name: str) -> str:
        """Return what a station's meshsec-radio has logged."""
        return self.programs[name].log.read_text(encoding="utf-8")

    def threshold(self, name: str) -> str:
        """Return the threshold that the kernel has; empty without one."""
        radio = self.field.radios[name]
        shown = run(["ip", "netns", "exec", radio.namespace, "iw", "phy", radio.phy, "info"]).stdout
        found = (one.strip().partition(": ") for one in shown.splitlines())
        return next((value for key, _, value in found if key == "RTS threshold"), "")


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Let three stations join by meshsec-radio; they are in reach of each other."""
    if obstacle := stations.obstacle():
        pytest.skip(obstacle)
    with stations.field(tmp_path, medium.station_radio) as field, ExitStack() as stack:
        programs: dict[str, Program] = {}
        for name, radio in field.radios.items():
            (directory := tmp_path / name).mkdir(mode=0o700)
            programs[name] = stack.enter_context(Program(INTERFACE, directory, WISH, namespace=radio.namespace))
        for program in programs.values():
            program.wait_ready()
        field.equip()
        for radio in field.radios.values():
            run(["ip", "netns", "exec", radio.namespace, "iw", "dev", INTERFACE, *RATE])
        with field.medium(Place(EVERYBODY.links, PHY)) as air:
            field.wait_peers((SENDERS[0], MIDDLE), (MIDDLE, SENDERS[1]))
            yield Crew(field, programs, air)


def test_hidden_stations_find_that_rts_helps_and_keep_it(crew: Crew) -> None:
    """Both lose frames that meet in the middle. The one there sends nothing, and so tries nothing."""
    crew.move(line(NAMES, SNR))
    before = crew.load()
    assert [crew.threshold(name) for name in NAMES] == ["", "", ""]
    crew.load_until(lambda name: KEPT in crew.said(name))
    after = crew.load()
    print(f"{before:.2f} Mbit/s without RTS, then {after:.2f}; {[crew.said(name) for name in NAMES]}")
    for name in SENDERS:
        assert crew.threshold(name) == "0"
        assert f"{INTERFACE}: RTS threshold 0: {KEPT}" in crew.log(name)
    assert crew.threshold(MIDDLE) == ""
    assert after > 1.5 * before


def test_stations_that_hear_each_other_keep_nothing(crew: Crew) -> None:
    """A trial may begin, because they repeat about as many frames as the least that looks like hidden nodes."""
    before = crew.load()
    after = crew.load_until(lambda name: any(text in crew.said(name) for text in REFUSED), USUAL)
    print(f"{before:.2f} Mbit/s, then {after:.2f}; {[crew.said(name) for name in NAMES]}")
    for name in NAMES:
        assert crew.threshold(name) == ""
        assert "RTS threshold 0" not in crew.log(name)
    assert after > 0.9 * before

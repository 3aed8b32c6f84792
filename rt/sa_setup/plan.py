"""What bench-sa-setup measures: the cells, and the circumstances of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rt.loads import encoder, on_demand
from rt.sa_setup.policy import OURS, PAPERS, SUITES
from rt.sa_setup.rig import Circumstances, Load

PARTS = ("priority", "loss", "suite", "stream")
PROFILES = ("paper-2007", "stock", "nice", "fifo", "governor")
PLACES = ("relay", "receiver")
NICE = (-20, -10, 0, 10, 19)
"""The priorities of the paper's load."""
LOADS = ("saturating", *on_demand.VIEWERS)
"""Of figures 8 and 9: the live encoder as the paper has it, and both kinds of streaming on demand."""
BOTH_SUITES = ("paper-2007", "stock", "governor")
"""Profiles that are measured with the paper's suite and with ours; the others with ours."""
BOTH_LOADS = (("paper-2007", PAPERS), ("governor", OURS))
"""Profiles and suites beside which videos are served on demand, too."""
STREAM_RATE = 5
"""Set-ups a second beside a stream that is watched."""
PROPOSALS: Mapping[str, tuple[str, str]] = {
    "aes256gcm-x25519": ("aes256gcm16-prfsha256-x25519", "aes256gcm16-x25519"),
    "chacha20-x25519": ("chacha20poly1305-prfsha256-x25519", "chacha20poly1305-x25519"),
    "aes128ccm-x25519": ("aes128ccm16-prfsha256-x25519", "aes128ccm16-x25519"),
    "aes256gcm-p384": ("aes256gcm16-prfsha384-ecp384", "aes256gcm16-ecp384"),
    "aes256gcm-modp2048": ("aes256gcm16-prfsha256-modp2048", "aes256gcm16-modp2048"),
}
"""Further suites, for IKE and ESP; with the default scheduling and no load."""


@dataclass(frozen=True)
class Key:
    """What a cell is about; empty texts and None are left out of the result."""

    part: str
    """One of ``PARTS``."""
    profile: str
    place: str = "none"
    nice: int | None = None
    loss: int | None = None
    """Per cent of the packets."""
    retransmission: str = ""
    suite: str = ""
    load: str = ""
    """The kind of load: one of ``rt.loads.encoder.PRESETS`` or ``rt.loads.on_demand.VIEWERS``."""
    rate: int | None = None
    apart: str = ""
    """Without a load: the node that has a processor to itself, as if it were the loaded one."""

    def of(self, **more: object) -> dict[str, object]:
        """For the result."""
        kept = {name: value for name, value in vars(self).items() if value not in ("", None)}
        return {**kept, **more}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.of().items())


@dataclass(frozen=True)
class Wanted:
    """What is to be measured; QUICK takes less."""

    parts: Sequence[str] = PARTS
    profiles: Sequence[str] = PROFILES
    nice: Sequence[int] = NICE
    places: Sequence[str] = PLACES
    suites: Sequence[str] = (PAPERS, OURS)
    loads: Sequence[str] = LOADS
    pairs: Sequence[tuple[str, str]] = ()
    """Profiles and suites that are measured; empty: every profile with ours, ``BOTH_SUITES`` with the paper's, too."""


QUICK_WANTED = Wanted(parts=("priority",), loads=("saturating",), pairs=(*BOTH_LOADS, ("stock", OURS)))
"""Figures 8 and 9 complete: the paper's suite and the priority of its IKE daemon, ours at nice 0, and ours governed."""


def cells(wanted: Wanted) -> Iterator[tuple[Key, Circumstances]]:
    """Return what is measured; the suites follow one another where all else is the same."""
    parts = {"priority": _priority, "loss": _loss, "suite": _suite, "stream": _stream}
    for part in wanted.parts:
        yield from parts[part](wanted)


def _priority(wanted: Wanted) -> Iterator[tuple[Key, Circumstances]]:
    for profile in wanted.profiles:
        for place in wanted.places:
            for suite in wanted.suites:
                if (profile, suite) in (wanted.pairs or _pairs(wanted.profiles)):
                    yield from _by_nice(wanted, profile, place, suite)


def _pairs(profiles: Sequence[str]) -> list[tuple[str, str]]:
    return [(profile, OURS) for profile in profiles] + [(profile, PAPERS) for profile in BOTH_SUITES]


def _by_nice(wanted: Wanted, profile: str, place: str, suite: str) -> Iterator[tuple[Key, Circumstances]]:
    policy = SUITES[suite]
    yield Key("priority", profile, suite=suite, apart=place), Circumstances(profile, apart=place, policy=policy)
    for kind in wanted.loads:
        if kind in on_demand.VIEWERS and (profile, suite) not in BOTH_LOADS:
            continue
        for value in wanted.nice:
            key = Key("priority", profile, place, value, suite=suite, load=kind)
            yield key, Circumstances(profile, Load(place, value, kind), policy=policy)


def _loss(_: Wanted) -> Iterator[tuple[Key, Circumstances]]:
    for loss in (1, 5):
        for stock in (False, True):
            key = Key("loss", "stock", loss=loss, retransmission="stock" if stock else "ours")
            yield key, Circumstances("stock", loss=loss, stock_retransmission=stock)


def _suite(_: Wanted) -> Iterator[tuple[Key, Circumstances]]:
    yield Key("suite", "stock", suite=PAPERS), Circumstances("stock", policy=SUITES[PAPERS])
    for name, (ike, esp) in PROPOSALS.items():
        policy = {"ike_proposals": [ike], "esp_proposals": [esp]}
        yield Key("suite", "stock", suite=name), Circumstances("stock", policy=policy)


def _stream(wanted: Wanted) -> Iterator[tuple[Key, Circumstances]]:
    """Return the figures of a watched stream, with and without set-ups beside it."""
    for kind in encoder.PRESETS:
        for profile in wanted.profiles:
            if profile in ("stock", "governor"):
                for rate in (0, STREAM_RATE):
                    load = Load("receiver", -20, kind)
                    key = Key("stream", profile, "receiver", -20, load=kind, rate=rate)
                    yield key, Circumstances(profile, load)

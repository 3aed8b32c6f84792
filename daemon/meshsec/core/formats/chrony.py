"""``chrony.conf`` of a node whose mesh keeps its own time (docs/guide/time.md; chrony.conf(5) since chrony 4.3)."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address

from meshsec.core.config.time_settings import Driver, Reference, TimeSettings
from meshsec.core.values.model import Card, Network

_STEP = "makestep 1 3"
"""At the start a board without a clock of its own is years away; later time never jumps under an application."""
_SLEW = "maxslewrate 1000"
"""Parts per million: two meshes that meet a second apart agree after a quarter of an hour, and no timer notices."""
_SAMPLES = "minsamples 8"
"""The delay of a radio link scatters: a drift that two or three packets suggest is none."""


class UnknownMasterError(ValueError):
    """A master that is neither this node nor a peer: nobody could protect what he says."""


def render(time: TimeSettings, own: Card, peers: Mapping[str, Card], prefixes: Iterable[Network], comment: str) -> str:
    """Return the text. ``peers`` are the trusted ones by name. Raises UnknownMasterError."""
    others = [_address(name, peers) for name in time.masters if name != own.name]
    poll = f"minpoll {time.minpoll} maxpoll {time.slowest_poll}"
    lines = [f"# {comment}"]
    lines += [f"server {address} iburst xleave {poll} {_SAMPLES}" for address in others]
    lines += [f"server {name} iburst" for name in time.servers]
    lines += _references(time.references)
    if own.name in time.masters:
        lines += _served(time, own, prefixes)
    else:
        lines += ["port 0"]
    lines += [f"bindcmdaddress {time.socket}", "cmdport 0", _STEP, _SLEW]
    lines += ["hwtimestamp *"] if time.hardware_timestamps else []
    lines += ["rtcsync", "driftfile /var/lib/chrony/chrony.drift"]
    return "\n".join(lines) + "\n"


def _address(name: str, peers: Mapping[str, Card]) -> IPv6Address:
    if name not in peers:
        known = ", ".join(sorted(peers)) or "nobody"
        raise UnknownMasterError(
            f"time.masters: {name!r} is neither this node nor a trusted peer, which are: {known}; "
            f"fix: `meshsec peer add {name} CARD`"
        )
    return peers[name].address


def _served(time: TimeSettings, own: Card, prefixes: Iterable[Network]) -> Iterator[str]:
    """Only to the mesh, by the address that IPsec protects; it need not be assigned yet when chronyd starts."""
    yield f"local stratum {time.stratum} orphan distance {time.distance:g}"
    yield f"bindaddress {own.address}"
    yield "bindaddress 127.0.0.1"
    yield from (f"allow {prefix}" for prefix in prefixes)


def _references(references: Iterable[Reference]) -> Iterator[str]:
    """Return the lines of reference clocks. A pulse does not say which second begins: another clock does."""
    knows = ""
    pulses = []
    for index, one in enumerate(references):
        refid = f"{'PPS' if one.driver is Driver.PPS else 'GPS'}{index}"
        if one.driver is Driver.PPS:
            pulses.append((refid, one))
            continue
        knows = knows or refid
        place = str(one.unit) if one.driver is Driver.SHM else one.path
        yield f"refclock {one.driver.upper()} {place} refid {refid}{_offset(one)} delay 0.2"
    for refid, one in pulses:
        yield f"refclock PPS {one.path} refid {refid}{_offset(one)}{f' lock {knows}' if knows else ''} prefer"


def _offset(one: Reference) -> str:
    return f" offset {one.offset:g}" if one.offset else ""

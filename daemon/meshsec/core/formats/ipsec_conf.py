"""What an ipsec.conf of libreswan means here (ipsec.conf(5)): whose cards are needed, and a policy profile.

``decode`` takes the lines with those of included files in their places. Everything that is not carried over is reported
with its file and line. Sections are put together as libreswan does: what a connection says counts before what it
takes from others by ``also=``, and that before ``conn %default``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from meshsec.core.ike import libreswan_suites
from meshsec.core.ike.libreswan_suites import UntranslatableError
from meshsec.core.policy.policy import PolicyError, decode_policy

DEEPEST = 16
"""Connections that take from each other by ``also=``."""
_SHOWN = 60
"""Characters of a bad value that a message repeats."""
_PARAMETER = re.compile(r"\s+([A-Za-z][A-Za-z0-9._-]*)\s*=\s*(.*)")
_SECTION = re.compile(r"(config|conn)\s+(\S+)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d|w)?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_KEYS = ("rsasigkey", "ecdsakey", "pubkey", "cert")
_TAKEN = {"left", "right", "leftid", "rightid", "auto", "also", "ike", "esp", "phase2alg", "pfs", "ikelifetime"}
_TAKEN |= {"salifetime", "keylife", "ipsec-lifetime"} | {f"{end}{key}" for end in ("left", "right") for key in _KEYS}
_NEEDLESS = {
    "authby": "peers authenticate by the keys on their cards",
    "type": "the mode follows from where ESP runs",
    "failureshunt": "what is not protected is always dropped",
    "negotiationshunt": "what is not protected is always dropped",
    "ikev2": "there is nothing but IKEv2",
    "keyexchange": "there is nothing but IKEv2",
    "mobike": "SAs bind addresses that do not change",
    "keyingtries": "meshsecd tries it again after 1 s, later after up to 60 s",
    "dpddelay": "SAs are kept while the peer is out of reach (hold_time of the policy)",
    "dpdtimeout": "SAs are kept while the peer is out of reach (hold_time of the policy)",
    "dpdaction": "SAs are kept while the peer is out of reach (hold_time of the policy)",
    "leftsubnet": "networks behind a node are announced: [routing] attached",
    "rightsubnet": "networks behind a node are announced: [routing] attached",
    "leftsubnets": "networks behind a node are announced: [routing] attached",
    "rightsubnets": "networks behind a node are announced: [routing] attached",
}
_LIFETIMES = {"ikelifetime": "ike_rekey_time", "salifetime": "child_rekey_time"}
_SAME = {"phase2alg": "esp", "keylife": "salifetime", "ipsec-lifetime": "salifetime"}
"""Older and newer names."""
_NEVER = ("ignore", "")


@dataclass(frozen=True, slots=True)
class Line:
    """One line and its place."""

    file: str
    number: int
    text: str

    @property
    def where(self) -> str:
        """As messages begin."""
        return f"{self.file}:{self.number}"


class IpsecConfError(Exception):
    """What is no ipsec.conf: one line ``FILE:LINE: what is wrong`` for each problem."""


@dataclass(frozen=True, slots=True)
class OldPeer:
    """Whom a connection was with."""

    name: str
    address: str
    identity: str
    """The identity it authenticates as; empty: its address."""
    key: str
    """How it authenticates: the keyword without its value; empty: none of the four."""
    auto: str


@dataclass(slots=True)
class Imported:
    """What was found. ``profile`` has the fields of a policy profile; ``ignored`` a line for each thing left out."""

    peers: list[OldPeer] = field(default_factory=list)
    profile: dict[str, object] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Value:
    text: str
    line: Line


@dataclass(slots=True)
class _Conn:
    line: Line
    values: dict[str, _Value] = field(default_factory=dict)
    also: list[_Value] = field(default_factory=list)


def decode(lines: Iterable[Line]) -> Imported:
    """Return the connections of an ipsec.conf. Raises IpsecConfError with every problem."""
    problems: list[str] = []
    found = Imported()
    conns = _sections(lines, problems, found.ignored)
    whole = {name: _whole(name, conns, problems) for name in conns if name != "%default"}
    if problems:
        raise IpsecConfError("\n".join(dict.fromkeys(problems)))
    used = {name: values for name, values in whole.items() if _told(name, values, conns, found)}
    for name, values in used.items():
        found.peers.append(_peer(name, values))
        _tell_own_identity(values, found)
    _policy(used.values(), found)
    return found


def shown(text: str) -> str:
    """Return the text without what a terminal would act upon."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _sections(lines: Iterable[Line], problems: list[str], ignored: list[str]) -> dict[str, _Conn]:
    conns: dict[str, _Conn] = {}
    current: _Conn | None = None
    for line in lines:
        text = _COMMENT.sub("", line.text).rstrip()
        if not text or text.split() == ["version", "2"]:
            continue
        if parameter := _PARAMETER.fullmatch(text):
            if current is None:
                problems.append(f"{line.where}: {_cut(text)}: is in no section; allowed: after `conn NAME`")
            else:
                _take(current, parameter[1].lower(), _Value(_unquoted(parameter[2]), line), ignored)
        elif section := _SECTION.fullmatch(text):
            current = _Conn(line)
            if section[1] == "conn":
                current = conns.setdefault(section[2], current)
        else:
            problems.append(
                f"{line.where}: {_cut(text)}: is not understood; allowed: `conn NAME`, `config setup`, "
                "`include FILE`, and `keyword=value` after white space"
            )
    _tell_odd(conns, ignored)
    return conns


def _take(conn: _Conn, key: str, value: _Value, ignored: list[str]) -> None:
    key = _SAME.get(key, key)
    if conn.line.text.split()[0] == "config":
        ignored.append(f"{value.line.where}: config setup: {key}: of libreswan's own running; meshsec has its own")
    elif key == "also":
        conn.also.append(value)
    else:
        conn.values[key] = value


def _tell_odd(conns: Mapping[str, _Conn], ignored: list[str]) -> None:
    """Note what is carried over from no connection, in use or not."""
    for name, conn in conns.items():
        for key, value in conn.values.items():
            if why := _why_not(key):
                ignored.append(f"{value.line.where}: conn {_cut(name)}: {_cut(key)}: {why}")


def _why_not(key: str) -> str:
    """Return why a keyword is not carried over; empty when it is."""
    if key.removeprefix("left").removeprefix("right") in _KEYS:
        return "a peer is trusted by its card, which has another key"
    return "" if key in _TAKEN else _NEEDLESS.get(key, "has no counterpart")


def _whole(name: str, conns: Mapping[str, _Conn], problems: list[str]) -> dict[str, _Value]:
    values: dict[str, _Value] = {}
    for values_of in _layers(name, conns, problems):
        values = {**values_of, **values}
    return values


def _layers(name: str, conns: Mapping[str, _Conn], problems: list[str]) -> Iterator[Mapping[str, _Value]]:
    """Return a connection's sections by precedence, each once, even where they include each other."""
    seen: set[str] = set()
    waiting = [name, "%default"] if "%default" in conns else [name]
    while waiting:
        conn = conns[(one := waiting.pop(0))]
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > DEEPEST or len(conn.also) > DEEPEST:
            problems.append(f"{conns[name].line.where}: conn {_cut(name)}: also= leads to more than {DEEPEST} sections")
            return
        yield conn.values
        for also in reversed(conn.also):
            if also.text in conns:
                waiting.insert(0, also.text)
            else:
                problems.append(f"{also.line.where}: conn {_cut(one)}: also: {_cut(also.text)!r} is no section here")


def _auto(values: Mapping[str, _Value]) -> str:
    return values["auto"].text.lower() if "auto" in values else ""


def _told(name: str, values: Mapping[str, _Value], conns: Mapping[str, _Conn], found: Imported) -> bool:
    """Return whether a connection is in use with one peer; otherwise note why it is not carried over."""
    where = f"{conns[name].line.where}: conn {_cut(name)}"
    if (auto := _auto(values)) in _NEVER:
        why = f"has auto={auto}" if auto else "has no auto=, which means auto=ignore"
        found.ignored.append(f"{where}: {why}; set auto=add to import it as a peer of its own")
        return False
    if not {"left", "right"} <= values.keys():
        found.ignored.append(f"{where}: has no {'left' if 'left' not in values else 'right'}=")
        return False
    other = values[_other_end(values)].text
    if other.startswith("%"):
        found.ignored.append(f"{where}: {_cut(other)} means anybody; meshsec has peers that are trusted one by one")
        return False
    return True


def _other_end(values: Mapping[str, _Value]) -> str:
    """Return the other node's end: right= by custom, unless the file says that right is this node."""
    here = values["right"].text.lower()
    return "left" if here.startswith("%defaultroute") else "right"


def _peer(name: str, values: Mapping[str, _Value]) -> OldPeer:
    end = _other_end(values)
    key = next((key for key in _KEYS if f"{end}{key}" in values), "")
    identity = values[f"{end}id"].text if f"{end}id" in values else ""
    return OldPeer(name, values[end].text, identity, f"{end}{key}" if key else "", _auto(values))


def _tell_own_identity(values: Mapping[str, _Value], found: Imported) -> None:
    key = "leftid" if _other_end(values) == "right" else "rightid"
    if key in values:
        _ignore(found, values[key], f"{key}: this node's identity is its fc.. address")


def _policy(conns: Iterable[Mapping[str, _Value]], found: Imported) -> None:
    for values in conns:
        first = _proposals("ike", values, found, "")
        pfs = values["pfs"].text.lower() != "no" if "pfs" in values else True
        _proposals("esp", values, found, first.rpartition("-")[2] if pfs else "")
        for key, name in _LIFETIMES.items():
            if key in values:
                _lifetime(name, values[key], found)


def _proposals(kind: str, values: Mapping[str, _Value], found: Imported, group: str) -> str:
    """Adds what can be taken over; the first of it."""
    taken: list[str] = []
    for text in values[kind].text.split(",") if kind in values else ():
        try:
            read = libreswan_suites.read_ike(text) if kind == "ike" else libreswan_suites.read_esp(text, group)
            decode_policy({f"{kind}_proposals": list(read)})
        except (UntranslatableError, PolicyError) as error:
            why = str(error) if isinstance(error, UntranslatableError) else "meshsec wants a key exchange with it"
            _ignore(found, values[kind], f"{kind}: {_cut(text.strip())}: {why}")
        else:
            taken += read
    if taken:
        known = found.profile.get(f"{kind}_proposals", [])
        found.profile[f"{kind}_proposals"] = list(dict.fromkeys([*known, *taken]))  # type: ignore[misc]
    return taken[0] if taken else ""


def _lifetime(name: str, value: _Value, found: Imported) -> None:
    """Keep the shortest lifetime of all connections: there is one policy."""
    match = _DURATION.fullmatch(value.text.lower())
    seconds = int(match[1]) * _UNITS.get(match[2] or "s", 0) if match else 0
    try:
        decode_policy({name: seconds})
    except PolicyError as error:
        _ignore(found, value, f"{_cut(value.text)}: {error}")
        return
    known = found.profile.get(name, seconds)
    found.profile[name] = min(seconds, known) if isinstance(known, int) else seconds


def _ignore(found: Imported, value: _Value, why: str) -> None:
    line = f"{value.line.where}: {why}"
    if line not in found.ignored:
        found.ignored.append(line)


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _cut(text: str) -> str:
    """Bounded, and without what a terminal would act upon."""
    text = shown(text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."

"""Networks in olsrd2: those that other routers announce, and the settings that meshsecd changes while olsrd2 runs.

meshsecd announces through sections ``olsrv2_lan`` whose names begin with ``meshsec_``, and leaves all others as they
are. It also extends ``routable_acl``, so that olsrd2 sets no route of its own to a network of a peer: that would lead
past the tunnel, which is the only way there. An entry stays until olsrd2 ends.

Facts of olsrd2 0.15.1:

- A line that begins with a slash is split at each slash, so a prefix needs a session that ends with ``quit``.
- A commit takes effect as a whole, and one message (TC) lists all networks: new ones never come after old ones go.
- ``config remove olsrv2_lan[NAME].`` removes all sections of that type: meshsecd sets those that stay again, before the
  commit.
- A commit of a wrong value may end the program. Only checked numbers and networks are sent.
- After ``config rollback`` each commit fails: it is never sent.
- A change of ``routable_acl`` counts when routes are next computed, which a change of a network causes.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from meshsec.adapters.routing.mapped import LocalNetwork, as_ipv6, as_meant
from meshsec.adapters.routing.olsrd2_answers import AnswerError, entries_under
from meshsec.core.values.model import Address, Network
from meshsec.core.values.networks import Announcement

OURS = "meshsec_"
"""How the names of our sections begin."""
RECOMPUTE = f"{OURS}recompute"
"""Section that announces this node's own address for a moment, so that olsrd2 computes its routes again."""
MAX_STRANGERS = 4096
"""Announcements of networks that this node does not use: they are kept to be shown, up to this number."""

_LAN = "config get olsrv2_lan."
_ACL = "olsrv2.routable_acl"
STATE = (_LAN, "olsrv2info json lan", f"config get {_ACL}", f"config query {_ACL}", "systeminfo json time")
"""Commands that show what olsrd2 announces, through which settings, and since when it runs."""

_LIST = re.compile(rf"^Key '{re.escape(_ACL)}' has value:\n((?:.+\n)*)", re.MULTILINE)
_KEYS = ("prefix", "domain", "source_prefix", "metric", "distance")
"""All keys of a section ``olsrv2_lan``."""
_METRICS = range(1, 16_776_961)
"""RFC 7181, section 6.2. olsrd2 reports a larger one for a network that cannot be reached."""
_DISTANCES = range(256)

Heard = dict[tuple[Network, Address], Announcement]
"""Announcements by network and originator."""


class Olsrd2Networks:
    """What meshsecd wants of olsrd2, and what olsrd2 has."""

    def __init__(self) -> None:
        self._wanted: dict[Network, LocalNetwork] | None = None
        """By network as it is announced; None until it is known. What a predecessor announced stays in force."""
        self._used: frozenset[Network] = frozenset()
        self._announced: dict[Network, tuple[int, int]] = {}
        """Distance and metric by network, as olsrd2 announces them."""
        self._sections: tuple[str, ...] = ()
        self._acl: tuple[str, ...] = ()
        self._default_acl: tuple[str, ...] = ()
        """What is in force while the list is not set. To set one entry ends that."""

    def want(self, networks: Iterable[LocalNetwork]) -> None:
        """Set what is to be announced."""
        self._wanted = {ip_network(as_ipv6(one.network)): one for one in networks}

    def use(self, networks: Collection[Network]) -> None:
        """Set the networks of peers that are reached through the tunnel."""
        self._used = frozenset(networks)

    def lacking(self) -> dict[Network, LocalNetwork]:
        """Return what is to be announced and is not, or not so; by network as it is announced."""
        wanted = (self._wanted or {}).items()
        return {name: one for name, one in wanted if self._announced.get(name) != (one.distance, one.metric)}

    def take(self, text: str) -> float:
        """Take the answer to ``STATE``. Return for how many seconds olsrd2 runs. Raises ``AnswerError``."""
        self._sections = _named(text)
        lans = entries_under("lan", text, STATE[1])
        self._announced = dict(filter(None, map(_local, lans)))
        is_set = f"Cannot find data for entry: '{_ACL}'" not in text
        lists = [tuple(found.split()) for found in _LIST.findall(text)]
        if not lists:
            raise AnswerError(f"no list in the answer to {STATE[3]!r}")
        self._acl, self._default_acl = (lists[0], ()) if is_set else ((), lists[0])
        return _uptime(text)

    def details(self) -> list[str]:
        """Return the commands that show the sections of others, if some of ours must go.

        olsrd2 then removes all sections, and those of others are set again.
        """
        if not self._superfluous():
            return []
        return [f"config get olsrv2_lan[{name}].{key}" for name in self._foreign() for key in _KEYS]

    def changes(self, details: str, own: Iterable[Address]) -> list[str]:
        """Return the commands that make olsrd2 what is wanted. ``details`` is the answer to the commands of that name.

        ``own`` are this node's originators. Raises ``AnswerError`` if a section of others could get lost.
        """
        if self._wanted is None:
            return []
        acl = [*self._acl_lines()]
        if self._superfluous():
            lans = ["config remove olsrv2_lan.", *self._restored(details), *_lines(self._wanted.values())]
        else:
            lans = [*_lines(self._unset())]
        if acl and not lans:
            lans = [f"config set olsrv2_lan[{RECOMPUTE}].prefix={one}" for one in own if one.version == 6][:1]
        return [*acl, *lans, "config commit"] if acl or lans else []

    def heard(self, found: Iterable[Mapping[str, Any]], reached: Collection[Address]) -> tuple[Heard, int]:
        """Return what other routers announce, and how many entries make no sense.

        Only originators to whom a route leads (``reached``) count, because olsrd2 keeps what routers announced that are
        gone.
        """
        heard, strangers, bad = Heard(), 0, 0
        for entry in found:
            try:
                one = _announcement(entry)
            except (KeyError, TypeError, ValueError):
                bad += 1
                continue
            if one is None or one.originator not in reached:
                continue
            strangers += one.network not in self._used
            if strangers <= MAX_STRANGERS or one.network in self._used:
                heard[one.network, one.originator] = one
        return heard, bad

    def _superfluous(self) -> bool:
        names = {_name(one.network) for one in (self._wanted or {}).values()}
        return self._wanted is not None and any(one.startswith(OURS) and one not in names for one in self._sections)

    def _foreign(self) -> list[str]:
        return [one for one in self._sections if not one.startswith(OURS)]

    def _unset(self) -> Iterator[LocalNetwork]:
        lacking = self.lacking()
        for name, one in (self._wanted or {}).items():
            if name in lacking or _name(one.network) not in self._sections:
                yield one

    def _restored(self, details: str) -> Iterator[str]:
        found = re.findall(r"^Key '(olsrv2_lan\[(.*)\]\.(\w+))' has value:\n(.+)\n", details, re.MULTILINE)
        if set(self._foreign()) - {name for _, name, key, _ in found if key == "prefix"}:
            raise AnswerError("it does not show all sections olsrv2_lan, so none is removed")
        yield from (f"config set {path}={value}" for path, _, _, value in found)

    def _acl_lines(self) -> Iterator[str]:
        """Yield what keeps the networks of peers out. Default routes need ``default_reject``, which is the file's."""
        narrow = sorted((one for one in self._used if one.prefixlen), key=str)
        lacking = [entry for one in narrow if (entry := f"-{one}") not in self._acl]
        if lacking:
            order = [] if {"first_reject", "first_accept"} & {*self._acl} else ["first_reject"]
            yield from (f"config set {_ACL}={entry}" for entry in (*self._default_acl, *order, *lacking))


def _name(network: Network) -> str:
    return f"{OURS}{network}".replace("/", "_")


def _lines(networks: Iterable[LocalNetwork]) -> Iterator[str]:
    for one in networks:
        section = f"config set olsrv2_lan[{_name(one.network)}]"
        yield f"{section}.prefix={as_ipv6(one.network)}"
        yield f"{section}.metric={one.metric}"
        yield f"{section}.distance={one.distance}"


def _named(text: str) -> tuple[str, ...]:
    """Return the names of the sections ``olsrv2_lan``."""
    found = re.search(r"^Named sections in section type: olsrv2_lan\n((?:.+\n)*)", text, re.MULTILINE)
    return tuple(found[1].splitlines()) if found else ()


def _local(entry: Mapping[str, Any]) -> tuple[Network, tuple[int, int]] | None:
    try:
        distance, metric = (
            _number(entry, "domain_distance", _DISTANCES),
            _number(entry, "domain_metric_out_raw", _METRICS),
        )
        return _network(entry["lan"]), (distance, metric)
    except (KeyError, TypeError, ValueError):
        return None


def _announcement(entry: Mapping[str, Any]) -> Announcement | None:
    """Decode an announcement; None: it holds for some sources only, or leads nowhere."""
    originator, network, source = (entry[key] for key in ("node", "attached_net", "attached_net_src"))
    if _network(source).prefixlen or entry["domain_metric_out_raw"] > _METRICS[-1]:
        return None
    return Announcement(as_meant(_network(network)), ip_address(_checked(originator)), *_distance_and_metric(entry))


def _distance_and_metric(entry: Mapping[str, Any]) -> tuple[int, int]:
    return _number(entry, "domain_distance", _DISTANCES), _number(entry, "domain_metric_out_raw", _METRICS)


def _network(value: object) -> Network:
    return ip_network(_checked(value))


def _checked(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(entry: Mapping[str, Any], key: str, allowed: range) -> int:
    value = entry[key]
    if type(value) is not int or value not in allowed:
        raise ValueError
    return value


def _uptime(text: str) -> float:
    (entry,) = entries_under("time", text, STATE[4])[:1] or [{}]
    try:
        return float(entry["time_internal"])
    except (KeyError, TypeError, ValueError):
        raise AnswerError(f"no time in the answer to {STATE[4]!r}") from None

"""Judges what was found on the node: each check says what it found and, when something is wrong, how to fix it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from meshsec.core.config.radio_settings import RadioSettings
from meshsec.core.explain import copied_keys, wall_doctor
from meshsec.core.explain.sentences import CLOSED_BY_DOUBT
from meshsec.core.radio import plan
from meshsec.core.radio.plan import Observed
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.model import EspBackend
from meshsec.core.values.refusals import Refusal

SCHEMA = "meshsec-doctor-1"

MTU_MIN = {EspBackend.KERNEL: 1280, EspBackend.LIBIPSEC: 1484}
"""Octets that a mesh interface must carry: the minimum of IPv6 (RFC 8200, section 5), or the 1400 of charon's TUN
device with IPv6 and UDP headers (48), ESP header, IV, padding, trailer and ICV (at most 36)."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    level: Level
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class RadioFacts:
    """One wireless mesh interface."""

    wish: RadioSettings | None
    """The settings; None when something else than meshsec-radio brings it up."""
    seen: Observed
    signals: Sequence[int] = ()
    """dBm, of each neighbour."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the adapters found. Empty texts and collections mean: nothing wrong."""

    ground: EspBackend
    ground_reason: str
    ground_problem: str
    """Why ESP cannot run where it should."""
    ike_version: str
    """Empty while the IKE daemon does not answer."""
    ike_problem: str
    plugins_missing: Sequence[str]
    router_software: str
    router_problem: str
    router_warnings: Sequence[str]
    routes_missing: Sequence[str]
    """Destinations to which the routing daemon has a route and the kernel has none."""
    rules_stand: bool
    dropped: Mapping[str, int]
    """Packets that the fail-closed rules dropped, and those that they let pass by the bypass list, by counter."""
    addresses_missing: Sequence[str]
    address_problem: str
    key_problem: str
    forwarding: Mapping[str, bool]
    """Whether forwarding is on, by sysctl."""
    mtus: Mapping[str, int | None]
    """MTU by mesh interface; None when the interface does not exist."""
    trust_problems: Sequence[str]
    closed_by_doubt: bool
    """Unknown nodes are closed because of them."""
    config_problem: str
    strangers: Sequence[str]
    """Nodes without a card that asked for an SA, with the reason and how often."""
    radios: Sequence[RadioFacts] = ()
    unweighed: Sequence[str] = ()
    """Mesh interfaces that have no metric by configuration."""
    overlay: str = ""
    """The overlay's node and its version, as far as it answers; empty where there is no overlay."""
    overlay_problem: str = ""
    unauthenticated: Sequence[str] = ()
    """Peers with whom the last negotiation failed because one end was not who it said it was, for the other."""
    left_out: int = 0
    """Proposals of the policy that the IKE daemon cannot do."""
    rules_disturbed: int = 0
    """How often another program altered or removed the fail-closed rules since meshsecd started."""
    one_sided: Sequence[str] = ()
    """Peers whose own end sends by the other data plane."""
    without_ipv4: Sequence[str] = ()
    """Peers with an IPv4 address in mode ``overlay``, which carries none."""
    ports_problem: str = ""
    """Which other process has the ports of IKE, or which of them the IKE daemon lacks (ADR 0056)."""
    ike_daemon: IkeDaemon = IkeDaemon.STRONGSWAN
    next_address: str = ""
    """That of the key which is to take the place of this node's; empty: the key is not being changed."""
    ipv4_doubts: Sequence[str] = ()
    """Peers whose card's IPv4 address is not believed, each with the reason (ADR 0057)."""
    refusals: Sequence[Refusal] = ()
    """What the routing daemon refused lately."""
    bypass: Sequence[str] = ()
    """What the policy lets pass in the clear, each with its reason."""
    unprotected_networks: Sequence[str] = ()
    """Networks that this node announces or reaches through others."""
    lost: Sequence[str] = ()
    """Peers with an SA through which nothing comes, and whose IKE daemon does not answer."""
    guard_problem: str = ""
    """Why nothing sorts what comes to the IKE daemon's ports; empty when the guard is in force (ADR 0054)."""
    guarded: Mapping[str, int] = field(default_factory=dict)
    """Datagrams to the IKE daemon that the guard dropped, by reason."""
    config_changed: bool = False
    """``config_problem`` is only that the file was changed since meshsecd started."""
    announced_instead: Sequence[str] = ()
    """What the routing daemon announces in place of this node's addresses; empty: these are what it announces."""
    failed: Sequence[str] = ()
    """Peers in reach with whom the last attempt failed, each with what that means."""
    down: Sequence[str] = ()
    """Mesh interfaces that are not up."""
    no_carrier: Sequence[str] = ()
    """Mesh interfaces that are up and have no link."""
    doubled: Sequence[str] = ()
    """Peers of which one has an SA while another asks for one again and again."""
    contested: Sequence[str] = ()
    """Peers in whose name somebody forges answers to this node's first messages."""


def examine(facts: Facts) -> list[Check]:
    """Return all checks, in the order in which a person would look."""
    return [check for judge in _CHECKS for check in judge(facts)]


def view(checks: Iterable[Check]) -> dict[str, Any]:
    """Return the checks as a JSON value (docs/reference/schema/meshsec-doctor-1.json)."""
    listed = list(checks)
    worst = max((check.level for check in listed), key=list(Level).index, default=Level.OK)
    return {
        "schema": SCHEMA,
        "verdict": str(worst),
        "checks": [
            {"name": check.name, "level": str(check.level), "found": check.found, "mend": check.fix} for check in listed
        ],
    }


def with_checks(known: Mapping[str, Any], further: Iterable[Check]) -> dict[str, Any]:
    """Return the view with more checks at its end, and the verdict of all of them."""
    more = view(further)
    verdict = max(known["verdict"], more["verdict"], key=lambda level: list(Level).index(Level(level)))
    return {**known, "verdict": verdict, "checks": [*known["checks"], *more["checks"]]}


def _one(name: str, problem: str, fine: str, fix: str, level: Level = Level.FAIL) -> list[Check]:
    return [Check(name, level, problem, fix) if problem else Check(name, Level.OK, fine)]


def _config(facts: Facts) -> list[Check]:
    fix = "correct the file, then `meshsec doctor` again; the last good configuration is in force"
    if facts.config_changed:
        fix = "systemctl restart meshsecd"
    return _one("configuration", facts.config_problem, "the file is what is in force", fix, Level.WARN)


def _key(facts: Facts) -> list[Check]:
    fine = "readable by root alone"
    if facts.next_address:
        fine += f"; it is being changed: the next one's address is {facts.next_address} (`meshsec key end`)"
    return _one("node key", facts.key_problem, fine, "restore the key file, or its mode with chmod 600")


def _trust(facts: Facts) -> list[Check]:
    fix = "ask the peer for its card again: `meshsec peer remove NAME`, `meshsec peer add NAME CARD`"
    closed = (CLOSED_BY_DOUBT,) if facts.closed_by_doubt else ()
    return _one("trust store", "; ".join((*facts.trust_problems, *closed)), "every card is good", fix, Level.WARN)


def _claims(facts: Facts) -> list[Check]:
    if not facts.ipv4_doubts:
        return []
    found = f"not believed, so these peers are reached by IPv6 alone: {'; '.join(facts.ipv4_doubts)}"
    fix = "ask the peer for a card with another IPv4 address, or correct mesh_prefixes in [policy] of meshsec.toml"
    return [Check("peers' IPv4 addresses", Level.WARN, found, fix)]


_ESP_MEND = {
    EspBackend.KERNEL: "load esp4, esp6 and an AES-GCM module, or set [ike] esp to 'libipsec' or 'auto'",
    EspBackend.LIBIPSEC: "modprobe tun; in a container pass /dev/net/tun in",
}


def _esp(facts: Facts) -> list[Check]:
    where = "in the kernel" if facts.ground is EspBackend.KERNEL else "in user space, by kernel-libipsec"
    return _one("ESP", facts.ground_problem, f"{where}: {facts.ground_reason}", _ESP_MEND[facts.ground])


def _ike(facts: Facts) -> list[Check]:
    unit = facts.ike_daemon.traits.unit.removesuffix(".service")
    fine = f"{facts.ike_daemon.traits.title} {facts.ike_version}"
    if facts.left_out:
        fine += f"; it cannot do {facts.left_out} of the policy's proposals: `meshsec policy explain`"
    checks = _one("IKE daemon", facts.ike_problem, fine, f"systemctl status {unit}; its journal")
    if facts.plugins_missing:
        missing = f"charon runs without {', '.join(facts.plugins_missing)}"
        checks.append(
            Check("IKE plugins", Level.FAIL, missing, "restart meshsec-ike, so that it takes our configuration")
        )
    return checks + _ports(facts)


def _ports(facts: Facts) -> list[Check]:
    """Judge who has the IKE ports. Where no unit restarts the IKE daemon, the fix says how to."""
    find = "`ss -lunp 'sport = :500 or sport = :4500'` names the program, `kill PID` ends it"
    unit = facts.ike_daemon.traits.unit
    fix = f"{find}; then {unit} has the port within seconds (without systemd: restart the IKE daemon)"
    return _one("IKE ports", facts.ports_problem, "UDP 500 and 4500 are the IKE daemon's", fix)


def _router(facts: Facts) -> list[Check]:
    fix = "systemctl status olsrv2d (or olsrd2); [routing] in meshsec.toml says which is asked, and where"
    checks = _one("routing daemon", facts.router_problem, facts.router_software, fix)
    if facts.announced_instead:
        found = f"announces {', '.join(facts.announced_instead)}, not this node's addresses: no peer finds a route here"
        fix = "write its configuration again (`meshsec export olsrv2d > /etc/olsrv2d/olsrv2d.toml`) and restart it"
        checks.append(Check("routing configuration", Level.FAIL, found, fix))
    return checks + [
        Check("routing daemon", Level.WARN, warning, "look into the routing daemon's log")
        for warning in facts.router_warnings
        if warning != copied_keys.SAME_ADDRESS
    ]


def _clones(facts: Facts) -> list[Check]:
    found = copied_keys.found(facts.router_warnings, facts.doubled)
    return [Check("copied key", Level.WARN, one, copied_keys.FIX) for one in found]


_REFUSED = {
    "over_limit": (
        "its tables are full: {count} entries were refused or gave way to others",
        "somebody invents routers; trusted peers and neighbours that are long known keep their places.",
    ),
    "rate_limited": (
        "{count} messages were dropped, because more came than it processes",
        "somebody floods the mesh with routing messages.",
    ),
    "malformed": (
        "{count} packets or messages were no RFC 5444",
        "a broken router or somebody who tries what olsrv2d does with garbage.",
    ),
    "spoofed": (
        "{count} messages claimed an address of this node",
        "another node uses this node's key or addresses (`meshsec key show` on both), or somebody pretends to.",
    ),
    "disbelieved": (
        "{count} messages said what only another router may say, and were not believed",
        "somebody forges messages of other routers; no route was moved by them.",
    ),
}
"""What doctor says of each counter, and what that means."""

_FIND = (
    "find the sender by its hardware address, since IP addresses can be forged: `tcpdump -e -n -i {} udp port 269`; "
    'keep strangers out of a radio mesh with security = "sae" in [radio]'
)
_NAMED_SOURCES = 3
_ORDINARY = {"disbelieved": 150}
"""Number in two minutes that means nothing, by counter: 30 moving routers that lost one packet in five had 103."""


def _refusals(facts: Facts) -> list[Check]:
    return [
        Check("routing input", Level.WARN, _refused(one), f"{_REFUSED[one.counter][1]} {_FIND.format(_where(one))}")
        for one in facts.refusals
        if one.counter in _REFUSED and one.count > _ORDINARY.get(one.counter, 0)
    ]


def _refused(refusal: Refusal) -> str:
    named = ", ".join(f"{one.address} on {one.interface} ({one.count})" for one in refusal.sources[:_NAMED_SOURCES])
    more = len(refusal.sources) + refusal.further_sources - _NAMED_SOURCES
    others = f" and {more} more addresses" if more > 0 else ""
    found = _REFUSED[refusal.counter][0].format(count=refusal.count)
    return f"{found} in the last two minutes" + (f"; most came from {named}{others}" if named else "")


def _where(refusal: Refusal) -> str:
    return refusal.sources[0].interface if refusal.sources else "any"


def _routes(facts: Facts) -> list[Check]:
    missing = ", ".join(facts.routes_missing[:8])
    problem = f"the kernel lacks {len(facts.routes_missing)} of the routing daemon's routes: {missing}"
    fix = "another program removed them: `ip monitor route` shows which; restarting the routing daemon restores them"
    return _one("kernel routes", problem if missing else "", "the kernel has the routing daemon's routes", fix)


def _rules(facts: Facts) -> list[Check]:
    problem = "" if facts.rules_stand else "the table inet meshsec is not what meshsecd applied"
    if not problem and facts.rules_disturbed:
        found = f"they stand again; another program altered or removed them {facts.rules_disturbed} times"
        fix = "let it leave the table inet meshsec alone: `nft flush ruleset` removes everybody's rules"
        return [Check("fail-closed rules", Level.WARN, found, fix)]
    counts = {name: count for name, count in facts.dropped.items() if count and not name.startswith("bypass_")}
    dropped = ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
    return _one(
        "fail-closed rules",
        problem,
        f"they stand; dropped so far: {dropped}",
        "see the log of meshsecd for nft's reason",
    )


def _dropped(facts: Facts) -> list[Check]:
    """Explain what was dropped. It did no harm, so nothing is wrong with this node."""
    return [Check("dropped packets", Level.OK, sentence) for sentence in wall_doctor.found(facts.dropped)]


def _bypass(facts: Facts) -> list[Check]:
    if not facts.bypass:
        return []
    passed = facts.dropped.get("bypass_out", 0), facts.dropped.get("bypass_in", 0)
    found = f"in the clear by the policy: {'; '.join(facts.bypass)}; packets so far: {passed[0]} out, {passed[1]} in"
    return [Check("bypass list", Level.OK, found)]


def _networks(facts: Facts) -> list[Check]:
    if not facts.unprotected_networks:
        return []
    found = f"user data to and from {', '.join(facts.unprotected_networks)} crosses the mesh in the clear"
    fix = "use ssh, TLS or a VPN of its own there; IPsec protects addresses of nodes alone ([routing] attached, accept)"
    return [Check("networks behind nodes", Level.WARN, found, fix)]


def _addresses(facts: Facts) -> list[Check]:
    missing = f"not assigned: {', '.join(facts.addresses_missing)}" if facts.addresses_missing else ""
    return _one("own addresses", facts.address_problem or missing, "assigned", "see the log of meshsecd")


def _overlay(facts: Facts) -> list[Check]:
    if not facts.overlay:
        return []
    fix = "systemctl status overlayd; `meshsec export overlayd` writes its configuration"
    checks = _one("overlay", facts.overlay_problem, facts.overlay, fix)
    if facts.one_sided:
        found = f"the other end sends by the other data plane: {', '.join(facts.one_sided)}"
        checks.append(Check("data planes", Level.WARN, found, "`meshsec mode` on both nodes, unless it is meant"))
    if facts.without_ipv4:
        found = f"no IPv4 to {', '.join(facts.without_ipv4)}: the overlay carries none, and nothing goes in the clear"
        checks.append(Check("IPv4", Level.WARN, found, "use the fc.. addresses, or `meshsec mode ipsec PEER`"))
    return checks


def _forwarding(facts: Facts) -> list[Check]:
    off = [name for name, is_on in facts.forwarding.items() if not is_on]
    fix = "install the sysctl.d file of meshsec, or: " + "; ".join(f"sysctl -w {name}=1" for name in off)
    return _one("forwarding", f"off: {', '.join(off)}" if off else "", "on: this node relays", fix, Level.WARN)


def _interfaces(facts: Facts) -> list[Check]:
    least = MTU_MIN[facts.ground]
    checks = []
    for name, mtu in facts.mtus.items():
        if mtu is None:
            checks.append(
                Check(f"interface {name}", Level.WARN, "does not exist", "bring it up, or correct [routing] interfaces")
            )
        elif name in facts.down:
            checks.append(Check(f"interface {name}", Level.WARN, "is down", f"ip link set {name} up"))
        elif name in facts.no_carrier:
            fix = f"plug in the cable; for a radio: systemctl status meshsec-radio@{name}"
            checks.append(Check(f"interface {name}", Level.WARN, "is up and has no link to anybody", fix))
        elif mtu < least:
            fix = f"ip link set {name} mtu {least}, or more"
            checks.append(Check(f"interface {name}", Level.WARN, f"MTU {mtu}: ESP packets are fragmented", fix))
        else:
            checks.append(Check(f"interface {name}", Level.OK, f"MTU {mtu}"))
    return checks


def _radios(facts: Facts) -> list[Check]:
    checks = []
    for one in facts.radios:
        name = one.seen.name
        amiss = plan.differences(one.wish, one.seen) if one.wish else plan.blocked(one.seen)
        fix = f"meshsec-radio --check {name}; systemctl status meshsec-radio@{name}" if one.wish else "rfkill list"
        checks += _one(f"radio {name}", "; ".join(amiss), plan.summary(one.seen, one.signals), fix, Level.WARN)
    return checks + _cables_beside_radios(facts)


def _cables_beside_radios(facts: Facts) -> list[Check]:
    """Warn of a cable without a metric: it weighs more than the slowest radio (docs/reference/olsrv2d.md)."""
    if not (wireless := {one.seen.name for one in facts.radios}):
        return []
    found = "is no radio, and without a metric of its own the last resort beside one"
    return [
        Check(f"interface {name}", Level.WARN, found, f"[routing.interface.{name}] metric = 26, for Ethernet")
        for name in facts.unweighed
        if name not in wireless and facts.mtus.get(name) is not None
    ]


def _strangers(facts: Facts) -> list[Check]:
    daemon = facts.ike_daemon.traits
    if not daemon.names_strangers:
        told = f"only the log of {daemon.program} says who asked for an SA in vain (`journalctl -u {daemon.unit}`)"
        return [Check("strangers", Level.OK, f"not known: {told}")]
    fix = "if one of them should be a peer, add its card: `meshsec peer add NAME CARD`"
    return _one("strangers", "; ".join(facts.strangers), "nobody without a card asked for an SA", fix, Level.WARN)


def _authentication(facts: Facts) -> list[Check]:
    if not facts.unauthenticated:
        return []
    found = f"failed with {', '.join(facts.unauthenticated)}: a key is another than on the card, or an IKE daemon"
    fix = "compare `meshsec peer show NAME` with the peer's `meshsec key show`, both ways; `meshsec peer add` renews it"
    return [Check("authentication", Level.WARN, found, fix)]


def _failed(facts: Facts) -> list[Check]:
    if not facts.failed:
        return []
    found = f"in reach and not protected, so no user data passes: {'; '.join(facts.failed)}"
    return [Check("failed peers", Level.WARN, found, "`meshsec explain NAME` says what was tried and what comes next")]


def _lost(facts: Facts) -> list[Check]:
    if not facts.lost:
        return []
    found = f"an SA stands and nothing comes from {', '.join(facts.lost)}, whose IKE daemon does not answer either"
    fix = "`meshsec explain NAME`, `meshsec topology`: the way may lead to somebody who takes what is sent"
    return [Check("silent peers", Level.WARN, found, fix)]


def _guard(facts: Facts) -> list[Check]:
    if facts.contested:
        found = f"somebody who hears this node answers in the name of {', '.join(facts.contested)}"
        fix = "`meshsec explain NAME`; this node repeats its attempts until the true answer is first"
        return [Check("first messages", Level.WARN, found, fix)]
    counts = ", ".join(f"{name} {count}" for name, count in facts.guarded.items() if count) or "nothing"
    fine = f"they are sorted before the IKE daemon reads them; dropped so far: {counts}"
    fix = "see the log of meshsecd for nft's reason; user data is protected all the same"
    return _one("first messages", facts.guard_problem, fine, fix, Level.WARN)


_CHECKS: tuple[Callable[[Facts], list[Check]], ...] = (
    _config,
    _key,
    _trust,
    _claims,
    _esp,
    _ike,
    _router,
    _clones,
    _refusals,
    _routes,
    _rules,
    _dropped,
    _bypass,
    _networks,
    _addresses,
    _overlay,
    _forwarding,
    _interfaces,
    _radios,
    _authentication,
    _failed,
    _lost,
    _guard,
    _strangers,
)

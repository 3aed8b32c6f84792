"""Judges what was found on the node: each check says what it found and, when something is wrong, how to fix it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from meshsec.core.explain import (
    copied_keys,
    input_doctor,
    names_doctor,
    neighbours_doctor,
    peers_doctor,
    radio_doctor,
    wall_doctor,
)
from meshsec.core.explain.findings import Check, Facts, Level, judged
from meshsec.core.networks.mtu import OVERLAY, OVERLAY_LEAST
from meshsec.core.values.model import EspBackend

SCHEMA = "meshsec-doctor-1"

MTU_MIN = {EspBackend.KERNEL: 1280, EspBackend.LIBIPSEC: 1484}
"""Octets that a mesh interface must carry: the minimum of IPv6 (RFC 8200, section 5), or the 1400 of charon's TUN
device with IPv6 and UDP headers (48), ESP header, IV, padding, trailer and ICV (at most 36)."""


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


def _config(facts: Facts) -> list[Check]:
    fix = "correct the file, then `meshsec doctor` again; the last good configuration is in force"
    if facts.config_changed:
        fix = "meshsec up"
    return judged("configuration", facts.config_problem, "the file is what is in force", fix, Level.WARN)


def _key(facts: Facts) -> list[Check]:
    fine = "readable by root alone"
    if facts.next_address:
        fine += f"; it is being changed: the next one's address is {facts.next_address} (`meshsec key end`)"
    if facts.key_changed:
        fix = "systemctl restart meshsecd, and give the new card (`meshsec key show`) to the peers"
        return [Check("node key", Level.WARN, facts.key_problem, fix)]
    return judged("node key", facts.key_problem, fine, "as it says, or restore the key file from a backup")


_PASSED = ("bypass_", "bench_")
"""Beginnings of the names of counters of what the rules let pass in the clear."""
_ESP_FIX = {
    EspBackend.KERNEL: "load esp4, esp6 and an AES-GCM module, or set [ike] esp to 'libipsec' or 'auto'",
    EspBackend.LIBIPSEC: "modprobe tun; in a container pass /dev/net/tun in",
}


def _esp(facts: Facts) -> list[Check]:
    where = "in the kernel" if facts.backend is EspBackend.KERNEL else "in user space, by kernel-libipsec"
    return judged("ESP", facts.backend_problem, f"{where}: {facts.backend_reason}", _ESP_FIX[facts.backend])


def _ike(facts: Facts) -> list[Check]:
    unit = facts.ike_daemon.traits.unit.removesuffix(".service")
    fine = f"{facts.ike_daemon.traits.title} {facts.ike_version}"
    if facts.left_out:
        fine += f"; it cannot do {facts.left_out} of the policy's proposals: `meshsec policy explain`"
    checks = judged("IKE daemon", facts.ike_problem, fine, f"systemctl status {unit}; its journal")
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
    return judged("IKE ports", facts.ports_problem, "UDP 500 and 4500 are the IKE daemon's", fix)


def _router(facts: Facts) -> list[Check]:
    fix = "systemctl status olsrv2d (or olsrd2); [routing] in meshsec.toml says which is asked, and where"
    checks = judged("routing daemon", facts.router_problem, facts.router_software, fix)
    if facts.announced_instead:
        found = f"announces {', '.join(facts.announced_instead)}, not this node's addresses: no peer finds a route here"
        fix = "systemctl reload olsrv2d (for olsrd2: write `meshsec export olsrd2` to its file, and restart it)"
        checks.append(Check("routing configuration", Level.FAIL, found, fix))
    return checks + [
        Check("routing daemon", Level.WARN, warning, "look into the routing daemon's log")
        for warning in facts.router_warnings
        if warning != copied_keys.SAME_ADDRESS
    ]


def _clones(facts: Facts) -> list[Check]:
    found = copied_keys.found(facts.own_copy, facts.doubled)
    return [Check("copied key", Level.WARN, one, copied_keys.FIX) for one in found]


def _routes(facts: Facts) -> list[Check]:
    missing = ", ".join(facts.routes_missing[:8])
    problem = f"the kernel lacks {len(facts.routes_missing)} of the routing daemon's routes: {missing}"
    fix = "another program removed them: `ip monitor route` shows which; restarting the routing daemon restores them"
    return judged("kernel routes", problem if missing else "", "the kernel has the routing daemon's routes", fix)


def _rules(facts: Facts) -> list[Check]:
    problem = "" if facts.rules_in_force else "the table inet meshsec is not what meshsecd applied"
    if not problem and facts.rules_disturbed:
        found = f"they are in force again; another program altered or removed them {facts.rules_disturbed} times"
        fix = "let it leave the table inet meshsec alone: `nft flush ruleset` removes everybody's rules"
        return [Check("fail-closed rules", Level.WARN, found, fix)]
    counts = {name: count for name, count in facts.dropped.items() if count and not name.startswith(_PASSED)}
    dropped = ", ".join(f"{name} {count}" for name, count in counts.items()) or "nothing"
    return judged(
        "fail-closed rules",
        problem,
        f"they are in force; dropped so far: {dropped}",
        "see the log of meshsecd for nft's reason",
    )


def _tables(facts: Facts) -> list[Check]:
    return wall_doctor.tables(facts.tables_altered)


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
    checks = []
    if facts.unprotected_networks:
        found = f"user data to and from {', '.join(facts.unprotected_networks)} crosses the mesh in the clear"
        fix = "take them out of the policy's open_networks, on both nodes: what is not open is protected"
        checks.append(Check("open networks", Level.WARN, found, fix))
    if facts.networks or facts.network_problems:
        fix = "see `meshsec explain NETWORK`, and [routing] attached in the meshsec.toml of the peer"
        fine = f"all {facts.networks} are reached protected"
        checks += judged("networks of peers", "; ".join(facts.network_problems), fine, fix, Level.WARN)
    if facts.limited_networks:
        checks.append(Check("IPv4 networks of peers", Level.OK, facts.limited_networks))
    if facts.past_networks:
        past = ", ".join(facts.past_networks)
        found = f"{past}: into a network of a peer, past the tunnel; the rules drop what goes there"
        fix = (
            "remove the route, or give the network of that interface or of the peer another prefix; a routing daemon "
            "sets none with the configuration that `meshsec export` writes"
        )
        checks.append(Check("routes past the tunnel", Level.FAIL, found, fix))
    if facts.unannounced:
        found = f"not announced by the router: {', '.join(facts.unannounced)}"
        fix = "see the log of the routing daemon: it refuses them, or has no room for more"
        checks.append(Check("networks behind this node", Level.WARN, found, fix))
    if facts.unheeded_networks:
        found = f"announced by peers that may not speak for them, so not used: {', '.join(facts.unheeded_networks)}"
        fix = "name the peer in [routing] accept of meshsec.toml if this node is to use the network"
        checks.append(Check("announced networks", Level.OK, f"{found}; {fix}"))
    return checks


def _gateway(facts: Facts) -> list[Check]:
    checks = []
    if facts.uplink:
        fix = f"give {facts.uplink} carrier and a default route, or choose another uplink: `meshsec gateway on NAME`"
        checks += judged(
            "gateway", "; ".join(facts.gateway_problems), f"offers the way out by {facts.uplink}", fix, Level.WARN
        )
    if facts.gateways_unwatched:
        found = f"{facts.gateways_unwatched}; a gateway that dies is noticed by the routing alone, in seconds"
        checks.append(Check("watch of gateways", Level.WARN, found, "sysctl --system"))
    return checks


def _resolvers(facts: Facts) -> list[Check]:
    if not facts.resolvers_lost:
        return []
    asked = ", ".join(facts.resolvers_lost)
    found = f"clients get no names: this node has no IPv4 address in the mesh, and cannot ask {asked}"
    fix = (
        "name a resolver with an IPv6 address in /etc/resolv.conf; or have clients ask themselves, by `resolvers` of "
        "[access] and `meshsec up`; or give this node an address: `ipv4` of [node]"
    )
    return [Check("resolvers", Level.WARN, found, fix)]


def _links(facts: Facts) -> list[Check]:
    if not facts.links:
        return []
    fix = "docs/guide/links.md says what each end needs; `meshsec explain PEER` says how it stands"
    fine = f"lead over the internet to {', '.join(facts.links)}"
    return judged("links", "; ".join(facts.link_problems), fine, fix, Level.WARN)


def _addresses(facts: Facts) -> list[Check]:
    missing = f"not assigned: {', '.join(facts.addresses_missing)}" if facts.addresses_missing else ""
    return judged("own addresses", facts.address_problem or missing, "assigned", "see the log of meshsecd")


def _overlay(facts: Facts) -> list[Check]:
    if not facts.overlay:
        return []
    fix = "systemctl status overlayd; `meshsec export overlayd` writes its configuration"
    checks = judged("overlay", facts.overlay_problem, facts.overlay, fix)
    if facts.overlay_mtu is not None and facts.overlay_mtu < OVERLAY_LEAST:
        found = f"MTU {facts.overlay_mtu}: large packets to networks do not fit into it"
        fix = f"`meshsec export overlayd`, or in overlayd.toml: [tun] mtu = {OVERLAY}; then restart overlayd"
        checks.append(Check("overlay's device", Level.WARN, found, fix))
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
    return judged("forwarding", f"off: {', '.join(off)}" if off else "", "on: this node relays", fix, Level.WARN)


def _interfaces(facts: Facts) -> list[Check]:
    least = MTU_MIN[facts.backend]
    checks = []
    for name, mtu in facts.mtus.items():
        if mtu is None:
            fix = "plug it in, or correct [routing] interfaces (`ip -br link` shows the names), then: meshsec up"
            checks.append(Check(f"interface {name}", Level.WARN, "does not exist", fix))
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


_CHECKS: tuple[Callable[[Facts], list[Check]], ...] = (
    _config,
    _key,
    peers_doctor.trust,
    peers_doctor.claims,
    peers_doctor.names,
    names_doctor.written,
    _esp,
    _ike,
    _router,
    _clones,
    input_doctor.refusals,
    _routes,
    _rules,
    _tables,
    _dropped,
    _bypass,
    _networks,
    _gateway,
    _resolvers,
    _links,
    _addresses,
    _overlay,
    _forwarding,
    _interfaces,
    radio_doctor.radios,
    radio_doctor.access_point,
    neighbours_doctor.neighbours,
    peers_doctor.authentication,
    peers_doctor.failed,
    peers_doctor.lost,
    peers_doctor.guard,
    peers_doctor.strangers,
)

"""Which steps undo what meshsec left on a machine. Nothing else of the machine is named, so nothing else changes.

Theory of operation. The machine stays closed as long as possible: first the daemons end, because they would set
everything again, and the rules go last. Between the two the machine is looked at again (``ending``, then ``undoing``).
Without anything left both are empty, so a second run does nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from meshsec.core.channels import nft_access, nft_bench, nft_flows, nft_rules, nft_uplink
from meshsec.core.ike import guard
from meshsec.core.uninstall.steps import LeaveMesh, Remove, Run, SetSysctl, Step, TakeNames
from meshsec.core.uninstall.sysctls import FORWARDING, Change

FIREWALL = "meshsec-firewall.service"
"""Its start sets the rules, its stop does not take them away."""
UNITS = (
    "meshsec.target",
    "meshsecd.service",
    "meshsec-ike.service",
    "meshsec-pluto.service",
    "meshsec-clients.service",
    "meshsec-dns-sd.service",
    "meshsec-dnsmasq.service",
    "meshsec-hostapd.service",
    "meshsec-names.service",
    "meshsec-page.service",
    "meshsec-zeroize.service",
    "meshsec-keys.service",
    "run-meshsec-keys.mount",
    "olsrv2d.service",
    "olsrv2-signer.service",
    "overlayd.service",
    FIREWALL,
)
"""All units of meshsec's packages, without those of radios, which have the interface in their names."""
TABLES = (
    *nft_rules.HELD_TABLES,
    nft_access.TABLE,
    nft_flows.TABLE,
    nft_uplink.TABLE,
    nft_bench.TABLE,
    guard.TABLE,
    nft_rules.TABLE,
)
"""All tables of nftables that meshsec sets, the one with the fail-closed rules last."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of systemd."""

    name: str
    is_enabled: bool
    is_active: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What is on the machine that meshsec brought; empty where there is nothing of the kind."""

    has_systemd: bool = True
    """Whether systemd is process 1."""
    units: tuple[Unit, ...] = ()
    """meshsec's units that are enabled or run."""
    replaced: tuple[Unit, ...] = ()
    """Units of other IKE daemons, as they were when ``meshsec up`` disabled them."""
    record: str = ""
    """The file in which ``meshsec up`` wrote them down; empty without one."""
    unrecorded: tuple[str, ...] = ()
    """Units of other IKE daemons that are disabled, by whom is not known."""
    radios: tuple[str, ...] = ()
    """Interfaces of the configuration that are still in a mesh."""
    has_names: bool = False
    """Whether /etc/hosts has lines of meshsec."""
    drop_ins: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    routes: tuple[tuple[str, int], ...] = ()
    """Option of ip(8) for the family, and protocol number."""
    rules: tuple[tuple[str, int], ...] = ()
    """The same of ip-rule(8)."""
    addresses: tuple[tuple[str, str], ...] = ()
    """Interface, and address with its prefix length."""
    sysctls: tuple[Change, ...] = ()
    translators: tuple[str, ...] = ()
    """Other programs' tables that translate addresses, and so need forwarding."""
    priorities: tuple[int, ...] = ()
    """Those of meshsec's own policies in XFRM."""
    ends: tuple[str, ...] = ()
    """This node's addresses that SAs or other policies still have."""
    tables: tuple[str, ...] = ()
    """Names of tables of nftables, all of the family inet."""
    secrets: tuple[str, ...] = ()
    """Files that nobody can make again."""
    is_sealed: bool = False
    """Whether the node's key is sealed by the machine's TPM."""


def ending(facts: Facts) -> tuple[Step, ...]:
    """Return the steps that end the daemons and keep them from coming back."""
    enabled = [one.name for one in facts.units if one.is_enabled]
    active = [one.name for one in facts.units if one.is_active and one.name != FIREWALL]
    return tuple(Run(("systemctl", verb, *names)) for verb, names in (("disable", enabled), ("stop", active)) if names)


def undoing(facts: Facts) -> tuple[Step, ...]:
    """Return the steps that undo everything else, the rules last."""
    return (*_of_files(facts), *_of_network(facts), *_of_rules(facts))


def giving_back(facts: Facts) -> tuple[Step, ...]:
    """Return the steps that undo what concerns other programs of the machine, and open nothing."""
    names = (TakeNames(),) if facts.has_names else ()
    units = tuple(_as_before(facts.replaced))
    return (*names, *units, *((Remove(facts.record, units),) if facts.record else ()))


def _of_files(facts: Facts) -> Iterator[Step]:
    for interface in facts.radios:
        yield LeaveMesh(interface)
    for path in facts.drop_ins:
        yield Remove(path)
    if facts.drop_ins and facts.has_systemd:
        yield Run(("systemctl", "daemon-reload"))
    yield from giving_back(facts)


def _as_before(units: Iterable[Unit]) -> Iterator[Step]:
    for unit in units:
        if unit.is_enabled:
            yield Run(("systemctl", "enable", *(["--now"] if unit.is_active else []), unit.name))
        elif unit.is_active:
            yield Run(("systemctl", "start", unit.name))


def _of_network(facts: Facts) -> Iterator[Step]:
    for change in facts.sysctls:
        if not _is_needed(change, facts):
            yield SetSysctl(change)
    for family, protocol in facts.routes:
        yield Run(("ip", family, "route", "flush", "table", "all", "proto", str(protocol)))
    for family, protocol in facts.rules:
        yield Run(("ip", family, "rule", "flush", "protocol", str(protocol)))
    for device in facts.devices:
        yield Run(("ip", "link", "delete", device))
    for interface, address in facts.addresses:
        yield Run(("ip", "address", "delete", address, "dev", interface))


def _is_needed(change: Change, facts: Facts) -> bool:
    """Return whether another program of the machine forwards. Nobody writes down that it has set the same value."""
    return bool(facts.translators) and change.key in FORWARDING


def _of_rules(facts: Facts) -> Iterator[Step]:
    for address in facts.ends:
        for end in ("src", "dst"):
            yield Run(("ip", "xfrm", "state", "deleteall", end, address))
            yield Run(("ip", "xfrm", "policy", "deleteall", end, address))
    for priority in facts.priorities:
        yield Run(("ip", "xfrm", "policy", "deleteall", "priority", str(priority)))
    if any(one.name == FIREWALL and one.is_active for one in facts.units):
        yield Run(("systemctl", "stop", FIREWALL))
    for table in facts.tables:
        yield Run(("nft", "delete", "table", "inet", table))


def disabled(facts: Facts) -> Iterator[str]:
    """Say which units of other IKE daemons stay disabled, and who enables them."""
    for unit in facts.unrecorded:
        yield (
            f"stays: {unit} is disabled, and `meshsec up` did not write down that it did so; if you want it: "
            f"`systemctl enable --now {unit}`"
        )


def staying(facts: Facts) -> Iterator[str]:
    """Say what stays, and who removes it."""
    if facts.secrets:
        yield (
            f"stays: {', '.join(facts.secrets)}. `meshsec backup FILE` keeps them in one file, `meshsec zeroize` "
            "destroys keys and passwords, `apt purge` removes configuration and cards, and keeps the node's key"
        )
    if facts.is_sealed:
        yield (
            "stays: the node's key is sealed (node.key.sealed), so that only meshsec on this machine opens it, also "
            "after `apt purge` and another installation; `meshsec key unseal` before makes it an ordinary file"
        )
    for change in facts.sysctls:
        if _is_needed(change, facts):
            yield (
                f"stays: {change.key} is {change.before}, because others translate addresses here (nftables: "
                f"{', '.join(facts.translators)}); if nothing forwards: `sysctl -w {change.key}={change.after}`"
            )
    yield from disabled(facts)
    yield "stays: the programs, which `apt remove` takes away, and the groups meshsec, meshsec-view, meshsec-page-port"

"""systemd drop-ins: the scheduling classes that services have from their start, and where meshsecd may send echoes."""

from collections.abc import Iterable, Mapping

from meshsec.core.scheduling.profiles import SERVICES, Placement, Profile, SchedulingPolicy
from meshsec.core.values.model import Address

UNITS = {
    "charon": ("meshsec-ike.service", "meshsec-pluto.service"),
    "olsrv2d": ("olsrv2d.service", "olsrv2-signer.service"),
    "meshsecd": ("meshsecd.service",),
    "overlayd": ("overlayd.service",),
}
"""The units of each service: the router and its signer, and both IKE daemons, of which a node has one."""
FILE = "50-meshsec-scheduling.conf"
PROBING_FILE = "50-meshsec-gateway.conf"
WRITTEN = "# Written by `meshsec export systemd`: changes made here are lost."
"""First line of each."""

_TAKES_ITS_CLASS_ITSELF = ("meshsecd",)
"""Once it runs. Until then it reads programs for seconds on a slow machine, without a pause: in a real-time class from
its start, the watchdog would end it before it has begun, again and again."""

_REALTIME_SECONDS = 5
"""What a real-time thread may compute without ever waiting: longer is a loop, which throttling alone leaves running."""


def drop_ins(profile: Profile) -> Mapping[str, str]:
    """Texts by path below ``/etc/systemd/system``. A service that the profile does not name has an empty one.

    So that the drop-ins of another profile do not stay behind, every unit has a file.
    """
    return {f"{unit}.d/{FILE}": _text(profile, service) for service in SERVICES for unit in UNITS[service]}


def probing(probes: Iterable[Address]) -> Mapping[str, str]:
    """Return the drop-in, by its path, by which meshsecd's unit may speak to the addresses that a gateway probes."""
    allowed = [f"IPAddressAllow={one}" for one in probes]
    body = ["", "[Service]", *allowed] if allowed else ["# This node probes nothing."]
    text = "\n".join([WRITTEN, *body, ""])
    return {f"{UNITS['meshsecd'][0]}.d/{PROBING_FILE}": text}


def realtime_units(profile: Profile) -> list[str]:
    """Return the units with a real-time class from their start; a kernel that refuses it does not start them."""
    given = {service: profile.class_of(service) for service in SERVICES if service not in _TAKES_ITS_CLASS_ITSELF}
    return [unit for service, one in given.items() if one is not None and one.is_realtime for unit in UNITS[service]]


def _text(profile: Profile, service: str) -> str:
    header = [
        WRITTEN,
        f"# Scheduling profile {profile.name}: {profile.description}",
    ]
    settings = _settings(profile, service)
    body = ["", "[Service]", *settings] if settings else ["# It leaves this service alone."]
    return "\n".join([*header, *body, ""])


def _settings(profile: Profile, service: str) -> list[str]:
    placement = profile.placements.get(service)
    lines = _class(service, placement) if placement else []
    if profile.can_be_realtime(service):  # also by a governor: the watchdog is there when meshsecd is not
        lines.append(f"LimitRTTIME={_REALTIME_SECONDS}s")
    if placement and placement.cpus:
        lines.append(f"CPUAffinity={' '.join(map(str, placement.cpus))}")
    return lines


def _class(service: str, placement: Placement) -> list[str]:
    # Each service is a control group of its own, and weights rank above nice values.
    wanted, weight = placement.scheduling, placement.group_weight
    if wanted.policy is SchedulingPolicy.OTHER:
        lines = [f"Nice={wanted.nice}"]
    elif service in _TAKES_ITS_CLASS_ITSELF:
        lines = []
    else:
        lines = [
            f"CPUSchedulingPolicy={wanted.policy}",
            f"CPUSchedulingPriority={wanted.priority}",
            # The threads of an IKE daemon are its work, and it starts no programs, but for pluto's addconn once at its
            # start; the others' children need no privilege.
            f"CPUSchedulingResetOnFork={'no' if service == 'charon' else 'yes'}",
        ]
    return lines if weight is None else [*lines, f"CPUWeight={weight}"]

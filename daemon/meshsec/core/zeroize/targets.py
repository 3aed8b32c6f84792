"""Where a node's secrets are, and which processes hold them.

The configuration is read leniently: a value that is refused elsewhere, or a file that is damaged, must not save a key.
What it does not say is where the packages put it. Paths are absolute, patterns are those of glob(7). No pattern is so
wide that a wrong directory in the configuration costs a machine its other files.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from meshsec.core.values import lenient

SYSTEM_CONFIG = "/etc/meshsec/meshsec.toml"
"""The configuration of the units. Only its node has the secrets outside of its own directories."""
STATE, RUN = "/var/lib/meshsec", "/run/meshsec"
SIGNER, OVERLAY = "/run/olsrv2-signer/sign.sock", "/run/overlayd/control.sock"
IKE_UNITS = ("meshsec-ike.service", "meshsec-pluto.service")
UNITS = (
    *IKE_UNITS,
    "meshsecd.service",
    "olsrv2-signer.service",
    "overlayd.service",
    "meshsec-hostapd.service",
    "meshsec-page.service",
    "olsrv2d.service",
)
"""What holds keys, passwords or logins, and the router, which has nothing more to announce."""
RADIO_UNITS = "meshsec-radio@*.service"

_OF_STATE = ("node.key", "*key*", "*secret*", "untouched", ".restore-interrupted")
"""In the state directory: keys, the second secret, and what an interrupted write of either left. The dead man's time
begins again with another key, and an interrupted `meshsec restore` is no obstacle to that.
"""
_OF_RUN = ("*.secrets", "pluto/*.secrets", "pluto/nss/*.db")
_OF_SYSTEM = (
    f"{RUN}/keys/*",
    "/etc/credstore/meshsec.*",
    "/etc/credstore/.meshsec.*",
    "/etc/credstore.encrypted/meshsec.*",
    "/run/credstore/meshsec.*",
    "/run/credstore.encrypted/meshsec.*",
    "/etc/overlayd/overlayd.toml",
    "/etc/overlayd/.overlayd.toml.*",
    "/etc/swanctl/conf.d/meshsec-secrets.conf",
    "/etc/ipsec.d/meshsec.secrets",
    "/run/meshsec-hostapd/hostapd.conf",
    "/run/meshsec-radio-*/*.conf",
    "/efi/meshsec/*[Pp][Aa][Ss][Ss][Ww][Oo][Rr][Dd]*",  # An image's first partition, FAT: upper case counts, too.
)


@dataclass(frozen=True, slots=True)
class Targets:
    """What is destroyed. The node's key is first, because the power may fail."""

    patterns: tuple[str, ...]
    also: tuple[str, ...]
    """Files, and directories with all files below, that the operator named."""
    in_homes: bool
    """Whether the keys of fleets in the homes of the machine's users are destroyed, too."""
    sockets: tuple[str, ...]
    """Sockets of the node's processes, or the directories of such."""
    ike_sockets: tuple[str, ...]
    """Those of the IKE daemon, which ends first: it tells the peers while there are routes."""
    arguments: tuple[str, ...]
    """Files that the node's processes have on their command lines."""
    units: tuple[str, ...]
    """Patterns of units whose processes are the node's; none if the units serve another node."""
    ike_units: tuple[str, ...]
    interfaces: tuple[str, ...]
    """Patterns of interfaces; those that are wireless have the keys of the mesh in the kernel."""


def targets(config: str, found: Mapping[str, object]) -> Targets:
    """Return what is destroyed on the node with this configuration; ``found`` is its content, empty if unreadable."""
    base = posixpath.dirname(config)
    state = lenient.path(found, base, ("paths", "state"), STATE)
    run = lenient.path(found, base, ("paths", "run"), RUN)
    vici = lenient.path(found, base, ("ike", "vici"), f"{run}/charon.vici")
    pluto = lenient.path(found, base, ("ike", "pluto"), f"{run}/pluto/pluto.ctl")
    patterns = [f"{_quoted(state)}/{one}" for one in _OF_STATE]
    patterns += [f"{_quoted(run)}/{one}" for one in _OF_RUN]
    patterns.append(f"{_quoted(posixpath.dirname(pluto))}/meshsec-*.secrets")
    is_system = config == SYSTEM_CONFIG
    if is_system:
        patterns += _OF_SYSTEM
    sockets = [
        run,
        lenient.path(found, base, ("routing", "signer"), SIGNER if is_system else ""),
        lenient.path(found, base, ("overlay", "socket"), OVERLAY if is_system else ""),
        vici,
        pluto,
    ]
    return Targets(
        patterns=tuple(dict.fromkeys(patterns)),
        also=_also(found, base),
        in_homes=is_system,
        sockets=tuple(filter(None, sockets)),
        ike_sockets=(vici, pluto),
        arguments=(config, f"{state}/node.key"),
        units=(*UNITS, RADIO_UNITS) if is_system else (),
        ike_units=IKE_UNITS if is_system else (),
        interfaces=_interfaces(found),
    )


def _quoted(path: str) -> str:
    """Return the pattern that matches this path alone."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in path)


def _also(found: Mapping[str, object], base: str) -> tuple[str, ...]:
    listed = lenient.table(found, "zeroize").get("also")
    texts = [one for one in listed if isinstance(one, str) and one] if isinstance(listed, list) else []
    return tuple(posixpath.normpath(posixpath.join(base, one)) for one in texts)


def _interfaces(found: Mapping[str, object]) -> tuple[str, ...]:
    """Return the interfaces of the mesh and of the access point; all if the configuration is unreadable."""
    listed = lenient.table(found, "routing").get("interfaces")
    access = lenient.table(lenient.table(found, "access"), "radio").get("interface")
    names = [*listed, access] if isinstance(listed, list) else [access]
    return tuple(one for one in names if isinstance(one, str)) if found else ("*",)

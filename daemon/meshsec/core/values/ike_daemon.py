"""The IKE daemons that a node may have, and in what they differ for the rest of meshsec (ADR 0044)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class IkeDaemon(StrEnum):
    """Which program speaks IKEv2 for this node, as ``[ike] daemon`` names it."""

    STRONGSWAN = "strongswan"
    LIBRESWAN = "libreswan"

    @property
    def traits(self) -> "Traits":
        """What is particular about it."""
        return _TRAITS[self]


@dataclass(frozen=True, slots=True)
class Traits:
    """What one IKE daemon is called, and what it can do."""

    title: str
    """Its name in text for people."""
    program: str
    """The name of its process."""
    unit: str
    """The unit of ours that runs it."""
    has_ed25519: bool
    """Whether it authenticates by the node's key. One that cannot authenticates by the secret of each pair."""
    has_libipsec: bool
    """Whether it can do ESP in user space."""
    opens_ports_once: bool
    """Whether it opens its UDP ports at its start alone, so that a port that was taken then needs a restart."""
    names_strangers: bool
    """Whether it reports who asked for an SA in vain. One that does not writes it to its log."""


_TRAITS: Mapping[IkeDaemon, Traits] = {
    IkeDaemon.STRONGSWAN: Traits(
        title="strongSwan",
        program="charon",
        unit="meshsec-ike.service",
        has_ed25519=True,
        has_libipsec=True,
        opens_ports_once=True,
        names_strangers=True,
    ),
    IkeDaemon.LIBRESWAN: Traits(
        title="libreswan",
        program="pluto",
        unit="meshsec-pluto.service",
        has_ed25519=False,
        has_libipsec=False,
        opens_ports_once=False,
        names_strangers=False,
    ),
}

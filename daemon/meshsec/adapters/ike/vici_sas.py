"""Decode charon's SAs and events."""

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any

from meshsec.adapters.ike.charon_states import child_sa_state, ike_sa_state
from meshsec.adapters.ike.vici_fields import number, text, texts
from meshsec.core.ike.port import Alert, IkeEvent, LogLine, SaChanged
from meshsec.core.values.model import ChildSa, IkeSa

_UNNAMED = "(unnamed)"
"""charon's name of an IKE_SA whose peer it does not know yet; such SAs are ignored."""


def events(kind: str, message: Mapping[str, Any], arrived: float) -> list[IkeEvent]:
    """Decode an event, which may concern several peers."""
    if kind == "log":
        line = LogLine(
            at=arrived,
            group=text(message, "group", ""),
            ike_name=text(message, "ikesa-name", ""),
            unique_id=text(message, "ikesa-uniqueid", ""),
            text=text(message, "msg", ""),
        )
        return [line]
    peers = [name for name, _ in named(message)]
    if kind == "alert":
        return [Alert(text(message, "alert", "unknown"), peer) for peer in peers or [""]]
    up = text(message, "up", "no") == "yes"
    return [SaChanged(peer, kind, up) for peer in peers]


def named(message: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the SAs of a message by the name of their connection."""
    return [(name, value) for name, value in message.items() if isinstance(value, Mapping) and name != _UNNAMED]


def ike_sa(name: str, section: Mapping[str, Any], now: float) -> IkeSa:
    """Decode an IKE_SA with its CHILD_SAs; charon gives times relative to ``now``."""
    established = text(section, "established", "")
    children = section.get("child-sas", {})
    return IkeSa(
        unique_id=text(section, "uniqueid"),
        peer=name,
        state=ike_sa_state(text(section, "state")),
        initiator=text(section, "initiator", "no") == "yes",
        spi_initiator=text(section, "initiator-spi"),
        spi_responder=text(section, "responder-spi"),
        established_at=now - int(established) if established else None,
        children=tuple(_child_sa(child, now) for child in children.values()),
        remote_id=_identity(text(section, "remote-id", "")),
        encryption=_encryption(section),
        key_exchange=text(section, "dh-group", ""),
        integrity=text(section, "integ-alg", ""),
        prf=text(section, "prf-alg", ""),
        local_id=_identity(text(section, "local-id", "")),
        rekey_at=_coming(section, "rekey-time", now),
        remote_host=_identity(text(section, "remote-host", "")),
        remote_end=text(section, "remote-host", ""),
        second_secret=text(section, "ppk", "no") == "yes",
        behind_nat=text(section, "nat-local", "no") == "yes",
    )


def _coming(section: Mapping[str, Any], key: str, now: float) -> float | None:
    """Return a point in time from charon's number of seconds from now; None without it."""
    return now + number(section, key) if key in section else None


def _encryption(section: Mapping[str, Any]) -> str:
    return "-".join(filter(None, (text(section, key, "") for key in ("encr-alg", "encr-keysize"))))


def _identity(address: str) -> IPv6Address | None:
    """Return the identity as an address; None if it cannot be a node's. ``%any`` means not known yet."""
    try:
        return IPv6Address(address)
    except ValueError:
        return None


def _child_sa(section: Mapping[str, Any], now: float) -> ChildSa:
    return ChildSa(
        name=text(section, "name"),
        state=child_sa_state(text(section, "state")),
        mode=text(section, "mode").lower(),
        spi_in=text(section, "spi-in", ""),
        spi_out=text(section, "spi-out", ""),
        encryption=_encryption(section),
        installed_at=now - number(section, "install-time"),
        bytes_in=number(section, "bytes-in"),
        bytes_out=number(section, "bytes-out"),
        packets_in=number(section, "packets-in"),
        packets_out=number(section, "packets-out"),
        integrity=text(section, "integ-alg", ""),
        key_exchange=text(section, "dh-group", ""),
        local_ts=texts(section, "local-ts"),
        remote_ts=texts(section, "remote-ts"),
        rekey_at=_coming(section, "rekey-time", now),
    )

"""Kinds of values that several tables of ``meshsec.toml`` have."""

from ipaddress import ip_address, ip_network
from typing import Annotated

from msgspec import Meta

from meshsec.core.trust.identity import NAME_RULE, checked_name
from meshsec.core.values import tables
from meshsec.core.values.definition import PathRule, Rule
from meshsec.core.values.model import Address, Network


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    return value


def _interface(value: object) -> str:
    if not tables.is_interface_name(value):
        raise ValueError
    return str(value)


NodeName = Annotated[str, Rule(NAME_RULE, lambda value: checked_name(_text(value)))]
InterfaceName = Annotated[str, Rule(tables.INTERFACE_RULE, _interface)]
Prefix = Annotated[
    Network,
    Rule(
        "ADDRESS/LENGTH with zeros behind LENGTH, such as '10.1.0.0/16' or '::/0'",
        lambda value: ip_network(_text(value)),
    ),
]
IpAddress = Annotated[
    Address, Rule("an IPv4 or IPv6 address, such as '192.0.2.1'", lambda value: ip_address(_text(value)))
]
Interval = Annotated[float, Meta(ge=0.05, le=3600.0, extra={"unit": "seconds"})]
"""Seconds that RFC 5497 can express and a mesh can use."""
Validity = Annotated[float, Meta(ge=0.05, le=36_000.0, extra={"unit": "seconds"})]
Metric = Annotated[int, Meta(ge=1, le=16_776_960)]
"""Metric of a link (RFC 7181, section 6.2: MINIMUM_METRIC to MAXIMUM_METRIC)."""
FilePath = Annotated[str, PathRule(4095)]
"""Linux's PATH_MAX without its NUL."""
SocketPath = Annotated[str, PathRule(tables.SOCKET_PATH_MAX)]

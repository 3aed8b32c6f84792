"""The routing tables that Kaplan (2006) prints in figures 6 and 7, in the columns that ours have.

They are quoted as data: destination with the length of its mask, gateway and interface. The client is 10.189.214.61.
"""

from collections.abc import Mapping, Sequence

from rt.smesh.tables import CLIENT, DEFAULT, INTERNAL, Row

ROLES = {
    "10.0.11.10": "the gateway",
    "10.0.11.20": "the relay",
    "10.0.11.30": "the client's access node",
    "10.0.11.40": "the other access node",
}
_CLIENT = "10.189.214.61/32"
_WIRED, _AIR = Row("10.0.10.0/24", "", "vlan0", ""), Row("10.0.0.0/8", "", "eth1", "")


def _host(number: int, gateway: int) -> Row:
    return Row(f"10.0.11.{number}/32", f"10.0.11.{gateway}", "eth1", "", INTERNAL)


def _client(gateway: str) -> Row:
    return Row(_CLIENT, gateway, "eth1", "", CLIENT)


def _default(gateway: str, device: str = "eth1") -> Row:
    return Row("default", gateway, device, "", DEFAULT)


FIGURE_7: Mapping[str, Sequence[Row]] = {
    "10.0.11.10": [
        _host(30, 20),
        _host(40, 20),
        _client("10.0.11.20"),
        Row("128.220.221.0/24", "", "vlan1", ""),
        _WIRED,
        _AIR,
        _default("commedia.cnds.j", "vlan1"),
    ],
    "10.0.11.20": [_client("10.0.11.30"), _WIRED, _AIR, _default("10.0.11.10")],
    "10.0.11.30": [_host(10, 20), _host(40, 20), _client("10.189.214.61"), _WIRED, _AIR, _default("10.0.11.20")],
    "10.0.11.40": [_host(30, 20), _host(10, 20), _client("10.0.11.20"), _WIRED, _AIR, _default("10.0.11.20")],
}
"""By the router."""
FIGURE_6: Sequence[Row] = [
    _client("10.0.11.40"),
    _client("10.0.11.30"),
    Row("10.0.10.0/24", "", "", ""),
    Row("10.0.0.0/8", "", "", ""),
    Row("default", "10.0.11.10", "", "", DEFAULT),
]
"""The relay's table with the change of the kernel that he proposes: two routes to one client."""

"""Parse what libreswan's pluto prints through ``whack`` (libreswan 4.10 and 5.2).

4.10 begins each line with three digits, 5.2 does not, and their names of states differ. An unknown line about an SA is
an error, because ignoring it would look like no SA.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meshsec.adapters.ike.causes import NOTIFIED, REPEATED, Table, find
from meshsec.core.ike.drift import Configured, ConfiguredChild
from meshsec.core.values.failures import Cause, FailureKind

PREFIX = "meshsec-"
"""Prefix of our connections' names; the operator's own connections have other names."""


ESTABLISHED = "ESTABLISHED_IKE_SA"
"""The state of an established IKE_SA."""


class StatusError(ValueError):
    """pluto printed an unknown line, which the message quotes."""


@dataclass(frozen=True, slots=True)
class State:
    """One SA, or one negotiation, of ``--showstates``."""

    serial: int
    conn: str
    name: str
    """The name of 5.2: for 4.10's STATE_V2_ESTABLISHED_IKE_SA it is ESTABLISHED_IKE_SA."""
    replace_in: int | None = None
    """Seconds until the SA's lifetime ends."""
    ike: int = 0
    """Number of the IKE_SA of an established CHILD_SA; else 0."""
    spi_in: str = ""
    spi_out: str = ""
    is_owner: bool = False
    """Whether the kernel's policies lead user data to this CHILD_SA."""

    @property
    def is_ike_sa(self) -> bool:
        """Whether this is an established IKE_SA."""
        return self.name == ESTABLISHED

    @property
    def is_child_sa(self) -> bool:
        """Whether this is an established CHILD_SA."""
        return self.name == "ESTABLISHED_CHILD_SA"

    @property
    def is_initiated(self) -> bool:
        """Whether this is a half-open IKE_SA that this node initiated."""
        return self.name in _INITIATOR

    @property
    def is_leaving(self) -> bool:
        """Whether the peer has not confirmed the end of this IKE_SA yet. Its CHILD_SAs remain until then."""
        return self.name in _LEAVING

    @property
    def is_half_open(self) -> bool:
        """Whether this is a half-open IKE_SA."""
        return self.is_initiated or self.name in _RESPONDER


@dataclass(frozen=True, slots=True)
class Traffic:
    """The counters of a CHILD_SA in ``--trafficstatus``."""

    serial: int
    added_at: int
    """Seconds since 1970."""
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of ``--status``."""

    remote_id: str = ""
    ike_lifetime: int = 0
    """Lifetime in seconds."""
    ike_suite: str = ""
    esp_suite: str = ""
    """The suite that was negotiated last."""
    policy: str = ""
    """The options of the connection, joined by plus signs."""
    local_id: str = ""
    local_authentication: str = ""
    remote_authentication: str = ""
    child_lifetime: int = 0
    dpd_delay: int = 0
    """Seconds."""
    ends: str = ""
    """Both ends as ``TS===END...END===TS``, where a traffic selector is left out if it is the end's own address."""

    @property
    def is_kept_up(self) -> bool:
        """Whether pluto makes the SA again when it ends, because it has the order to initiate it."""
        return "UP" in self.policy.split("+")

    @property
    def is_tunnel(self) -> bool:
        """Whether the CHILD_SA is in tunnel mode."""
        return "TUNNEL" in self.policy.split("+")


_INITIATOR = {
    "PARENT_I0",
    "PARENT_I1",
    "PARENT_I2",
    "IKE_SA_INIT_I0",
    "IKE_SA_INIT_I",
    "IKE_INTERMEDIATE_I",
    "IKE_AUTH_I",
}
_RESPONDER = {"PARENT_R0", "PARENT_R1", "IKE_SA_INIT_R", "IKE_SA_INIT_IR", "IKE_INTERMEDIATE_R", "IKE_INTERMEDIATE_IR"}

_LEAVING = {"IKE_SA_DELETE", "ZOMBIE"}
"""The names in libreswan 4 and 5."""

_CODE = re.compile(r"^\d{3} ")
_NAME = r'"(?P<conn>[^"]{1,200})"(?:\[\d+\] \S+)?'
_NUMBER = r"\d{1,18}"
_STATE = re.compile(rf"^#(?P<serial>{_NUMBER}): {_NAME}:\d+(?:\(tcp\))? (?:STATE_)?(?:V2_)?(?P<name>[A-Za-z0-9_]+) \(")
_DETAILS = re.compile(rf"^#(?P<serial>{_NUMBER}): {_NAME}(?: used -?\d+s ago;)?(?P<said>(?: \S+@\S+)*) Traffic:")
_PENDING = re.compile(rf"^#{_NUMBER}: pending ")
_TRAFFIC = re.compile(
    rf"^#(?P<serial>{_NUMBER}): {_NAME}, .*\badd_time=(?P<added>{_NUMBER})"
    rf"(?:, inBytes=(?P<inward>{_NUMBER}))?(?:, outBytes=(?P<outward>{_NUMBER}))?"
)
_REPLACE = re.compile(rf" (?:REPLACE|EXPIRE) in (-?{_NUMBER})s;")
_IKE = re.compile(rf" (?:IKE|ISAKMP) SA #({_NUMBER});")
_ESP = re.compile(r"^esp[:.]([0-9a-fA-F]{1,8})@")
_CONN = re.compile(rf"^{_NAME}: (?P<rest>.*)$")
_VERSION = re.compile(r"\bpluto_version=([^\s,]{1,64})")
_ATTRIBUTES: Mapping[str, re.Pattern[str]] = {
    "ends": re.compile(r"^(\S+\.\.\.[^\s;]+);"),
    "local_id": re.compile(r"\bour id=([^\s;]+)"),
    "remote_id": re.compile(r"\btheir id=([^\s;]+)"),
    "local_authentication": re.compile(r"\bour auth:([^\s,;]+)"),
    "remote_authentication": re.compile(r"\btheir auth:([^\s,;]+)"),
    "child_lifetime": re.compile(rf"\bipsec_life: ({_NUMBER})s;"),
    "dpd_delay": re.compile(rf"\bdpddelay:({_NUMBER})s;"),
    "ike_lifetime": re.compile(rf"\bike_life: ({_NUMBER})s;"),
    "ike_suite": re.compile(r"\bIKEv2 algorithm newest: ([^\s;]+)"),
    "esp_suite": re.compile(r"\bESP algorithm newest: ([^\s;]+)"),
    "policy": re.compile(r"^\s*policy: (\S+);"),
}


def states(text: str) -> tuple[State, ...]:
    """Return all SAs and negotiations of ``--showstates`` or ``--status``, in order. Raises StatusError."""
    found: dict[int, State] = {}
    for line in _lines(text):
        if not line.startswith("#") or _PENDING.match(line):
            continue
        if state := _STATE.match(line):
            found[int(state["serial"])] = _state(state, line)
        elif (details := _DETAILS.match(line)) and int(details["serial"]) in found:
            before = found[int(details["serial"])]
            found[before.serial] = _with_spis(before, details["said"])
        else:
            raise StatusError(f"pluto says of an SA what is not understood: {line[:200]!r}")
    return tuple(found.values())


def traffic(text: str) -> Mapping[int, Traffic]:
    """Return the counters by the SA's number. Raises StatusError."""
    found = {}
    for line in _lines(text):
        if not line.startswith("#"):
            continue
        one = _TRAFFIC.match(line)
        if one is None:
            raise StatusError(f"pluto says of an SA's traffic what is not understood: {line[:200]!r}")
        serial = int(one["serial"])
        found[serial] = Traffic(serial, int(one["added"]), int(one["inward"] or 0), int(one["outward"] or 0))
    return found


def connections(text: str) -> Mapping[str, Connection]:
    """Return the connections of ``--status`` by name, including those that are not ours."""
    values_of: dict[str, dict[str, str]] = {}
    for line in _lines(text):
        if about := _CONN.match(line):
            values = values_of.setdefault(about["conn"], {})
            for key, pattern in _ATTRIBUTES.items():
                if value := pattern.search(about["rest"]):
                    values[key] = value[1]
    return {name: _connection(values) for name, values in values_of.items()}


def configured(text: str) -> tuple[Configured, ...]:
    """Return pluto's configuration of our peers.

    If a peer has several connections, the longest times and every feature of any of them count.
    """
    found: dict[str, list[tuple[str, Connection]]] = {}
    for name, conn in connections(text).items():
        if ours := peer_and_child(name):
            found.setdefault(ours[0], []).append((ours[1], conn))
    return tuple(_configured(peer, dict(conns)) for peer, conns in found.items())


def _configured(peer: str, conns: Mapping[str, Connection]) -> Configured:
    def joined(values: Iterable[str]) -> str:
        return ", ".join(sorted(set(values)))

    every = conns.values()
    return Configured(
        name=peer,
        local_addresses=tuple(sorted({_ends(conn)[0][0] for conn in every})),
        remote_addresses=tuple(sorted({_ends(conn)[1][0] for conn in every})),
        local_id=joined(conn.local_id for conn in every),
        remote_id=joined(conn.remote_id for conn in every),
        local_authentication=joined(conn.local_authentication for conn in every),
        remote_authentication=joined(conn.remote_authentication for conn in every),
        ike_version=joined("IKEv2" if "IKEv2" in conn.policy.split("+") else conn.policy for conn in every),
        ike_rekey_time=max(conn.ike_lifetime for conn in every),
        dpd_delay=max(conn.dpd_delay for conn in every),
        children=tuple(_configured_child(name, conn) for name, conn in conns.items()),
    )


def _configured_child(name: str, conn: Connection) -> ConfiguredChild:
    (_, local), (_, remote) = _ends(conn)
    mode = "tunnel" if conn.is_tunnel else "transport"
    return ConfiguredChild(name, mode=mode, local_ts=(local,), remote_ts=(remote,), rekey_time=conn.child_lifetime)


def _ends(conn: Connection) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return for each end its address and its traffic selector."""
    here, _, there = conn.ends.partition("...")
    local_ts, _, local = here.rpartition("===")
    remote, _, remote_ts = there.partition("===")
    return (_host(local), local_ts or _whole(local)), (_host(remote), remote_ts or _whole(remote))


def _host(end: str) -> str:
    """Return an end without its identity or host name."""
    return re.split(r"[<\[]", end, maxsplit=1)[0]


def _whole(end: str) -> str:
    return f"{_host(end)}/{128 if ':' in end else 32}"


def secrets(text: str) -> frozenset[frozenset[str]]:
    """Return for each secret of ``--listpsks`` the identities that share it."""
    found = (re.match(r"^\s*\d+: PSK (?P<who>.+)$", line) for line in _lines(text))
    return frozenset(frozenset(one["who"].split()) for one in found if one)


def version(text: str) -> str:
    """Return pluto's version from ``--status``. Raises StatusError if it is not there."""
    found = _VERSION.search(text)
    if found is None:
        raise StatusError(f"pluto does not say its version: {text[:200]!r}")
    return found[1]


def conn_name(peer: str, child: str) -> str:
    """Return the name of the connection for a peer's CHILD_SA. Neither name contains a full stop."""
    return f"{PREFIX}{peer}.{child}"


def peer_and_child(conn: str) -> tuple[str, str] | None:
    """Split a connection's name; None if it is not ours."""
    peer, stop, child = conn.removeprefix(PREFIX).rpartition(".")
    return (peer, child) if conn.startswith(PREFIX) and stop and peer and child else None


def initiated(lines: Iterable[str]) -> int | None:
    """Return the number of the IKE_SA that ``--initiate`` began; None if it used an established one."""
    begun = (re.search(rf'" #({_NUMBER}): initiating IKEv2 connection', line) for line in lines)
    return next((int(found[1]) for found in begun if found), None)


_NO_ADDRESS = "we cannot identify ourselves with either end"
_UNKNOWN_PEER = Cause("the IKE daemon does not know the peer", FailureKind.OWN_DAEMON)
_FAILURES: Table = (
    (re.compile(r"rejected by peer: (?P<what>[A-Z][A-Z_]+)"), NOTIFIED),
    (re.compile(r"rejected Child SA with (?P<what>[A-Z][A-Z_]+)"), NOTIFIED),
    (re.compile(r"containing (?P<what>[A-Z][A-Z_]+) notification"), NOTIFIED),
    (re.compile(r"missing v2SA, v2TSi or v2TSr"), Cause("the peer refused the CHILD_SA")),
    (re.compile(r"timeout exceeded after (?P<what>\d+) retransmits"), REPEATED),
    (
        re.compile(_NO_ADDRESS),
        Cause("the IKE daemon does not know this node's address yet", FailureKind.OWN_DAEMON),
    ),
    (re.compile(r"no connection (?:or alias )?named"), _UNKNOWN_PEER),
)


def failure(lines: Iterable[str]) -> Cause | None:
    """Return why an ``--initiate`` failed, by what ``whack`` printed; None when it does not say."""
    found = (find(_FAILURES, line) for line in lines)
    return next((cause for cause, _ in filter(None, found)), None)


def lacks_address(lines: Iterable[str]) -> bool:
    """Return whether ``--initiate`` failed because pluto does not know this node's address yet (``--listen`` fixes
    that).
    """
    return any(_NO_ADDRESS in line for line in lines)


def is_given_up(line: str) -> bool:
    """Return whether this line of ``--initiate`` says that an attempt failed. 5.2 continues with the next by itself."""
    return "is supposed to remain up" in line


def _lines(text: str) -> Iterable[str]:
    return (_CODE.sub("", line).rstrip() for line in text.split("\n"))


def _state(found: re.Match[str], line: str) -> State:
    replace_in, ike = _REPLACE.search(line), _IKE.search(line)
    return State(
        serial=int(found["serial"]),
        conn=found["conn"],
        name=found["name"],
        replace_in=int(replace_in[1]) if replace_in else None,
        ike=int(ike[1]) if ike else 0,
        is_owner=" eroute owner;" in line,
    )


def _with_spis(state: State, said: str) -> State:
    """Return the state with its SPIs: outbound first, then inbound."""
    outward, inward = ([spi[1].lower().zfill(8) for one in said.split() if (spi := _ESP.match(one))] + ["", ""])[:2]
    return replace(state, spi_in=inward, spi_out=outward)


def _connection(values: Mapping[str, str]) -> Connection:
    return Connection(
        remote_id=values.get("remote_id", ""),
        ike_lifetime=int(values.get("ike_lifetime", 0)),
        ike_suite=values.get("ike_suite", ""),
        esp_suite=values.get("esp_suite", ""),
        policy=values.get("policy", ""),
        local_id=values.get("local_id", ""),
        local_authentication=values.get("local_authentication", ""),
        remote_authentication=values.get("remote_authentication", ""),
        child_lifetime=int(values.get("child_lifetime", 0)),
        dpd_delay=int(values.get("dpd_delay", 0)),
        ends=values.get("ends", ""),
    )

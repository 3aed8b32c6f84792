"""Read from charon's log what VICI's events lack: the duration of each phase and why a negotiation failed.

The texts are those of strongSwan 5.9 and 6.0. An unknown text is ignored, because only explanations depend on it.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from meshsec.adapters.ike.causes import NOTIFIED, REPEATED, Table, find
from meshsec.core.values.failures import Cause, FailureKind

MAX_NEGOTIATIONS = 1024
"""Negotiations followed at once. Strangers can start any number, so the oldest is forgotten."""

_UNNAMED = "(unnamed)"
"""charon's name of an IKE_SA whose peer it does not know yet."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A peer's CHILD_SA is established. Each phase has its duration in seconds, or None if the log came too late."""

    peer: str
    ike_sa_init: float | None = None
    ike_auth: float | None = None
    child: float | None = None
    """Duration of CREATE_CHILD_SA, if the CHILD_SA did not come with IKE_AUTH."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A negotiation failed. ``peer`` is empty for an unknown peer; ``address`` is where it came from."""

    peer: str
    address: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Asking:
    """A first message came from this address. Its sender has proved nothing yet."""

    address: str


@dataclass(slots=True)
class _Negotiation:
    peer: str = ""
    address: str = ""
    init_at: float | None = None
    auth_at: float | None = None
    child_at: float | None = None
    setup: Setup | None = None
    is_told: bool = False
    """Whether the reason was reported already: the first reason is the cause, later ones follow from it."""


_INIT_BEGINS = re.compile(r"^(generating IKE_SA_INIT request|parsed IKE_SA_INIT request) ")
_AUTH_BEGINS = re.compile(r"^(parsed IKE_SA_INIT response|parsed IKE_AUTH request) ")
_CHILD_BEGINS = re.compile(r"^(generating|parsed) CREATE_CHILD_SA request ")
_CHILD_STANDS = re.compile(r"^(inbound |outbound )?CHILD_SA \S+ established with SPIs ")
_LOOKING = re.compile(r"^looking for peer configs matching \S+\.\.\.(?P<address>[^\[]+)\[(?P<id>.+)\]$")

_ASKING = re.compile(r"^(?P<address>\S+) is initiating an IKE_SA$")

_NO_CARD = Cause("no card of this node is trusted")
_OTHER_KEY = Cause("the peer's key is not the one on its card", FailureKind.OTHER_KEY)
_BY_SECRET = Cause("the peer authenticates by a secret, its card says: by its key", FailureKind.OTHER_METHOD)
_NO_ED25519 = Cause("the peer's IKE daemon takes no Ed25519 signature", FailureKind.OTHER_METHOD)
_NO_SECOND = Cause("this node asks for the second secret, and the peer has none", FailureKind.SECOND_SECRET)
_OTHER_SECOND = Cause("the peer has another second secret than this node", FailureKind.SECOND_SECRET)
_NO_PROPOSAL = Cause("NO_PROPOSAL_CHOSEN: sent to the peer", FailureKind.NO_PROPOSAL)
_SELECTORS = Cause("TS_UNACCEPTABLE: sent to the peer", FailureKind.SELECTORS)
_NO_PRIVATE_KEY = Cause("the IKE daemon lacks this node's private key", FailureKind.OWN_DAEMON)

_FAILURES: Table = (
    (re.compile(r"^received (?P<what>[A-Z_]+) notify error"), NOTIFIED),
    (re.compile(r"^received (?P<what>[A-Z_]+) notify, no CHILD_SA built"), NOTIFIED),
    (re.compile(r"^no IKE config found for .*\.\.\.(?P<address>\S+), sending"), _NO_CARD),
    (re.compile(r"^no matching peer config found"), _NO_CARD),
    (re.compile(r"^no trusted \S+ public key found for "), _OTHER_KEY),
    (re.compile(r"^no shared key found for "), _BY_SECRET),
    # Where it does not say that it knows RFC 7427, as libreswan, which authenticates by a secret.
    (re.compile(r"^private key of type ED25519 not supported"), _NO_ED25519),
    (re.compile(r"^PPK required but (peer does not support PPK|no PPK_IDENTITY received)"), _NO_SECOND),
    (re.compile(r"^received PPK_ID '.*', but require '.*'"), _OTHER_SECOND),
    (re.compile(r"^PPK required but no PPK found"), _OTHER_SECOND),
    (re.compile(r"^constraint check failed: peer not authenticated"), _OTHER_KEY),
    (re.compile(r"^received proposals unacceptable"), _NO_PROPOSAL),
    (re.compile(r"^no acceptable proposal found"), _NO_PROPOSAL),
    (re.compile(r"^traffic selectors .* unacceptable"), _SELECTORS),
    (re.compile(r"^generating .* \[.*N\(AUTH_FAILED\)"), _OTHER_KEY),
    (re.compile(r"^giving up after (?P<what>\d+) retransmits"), REPEATED),
    (re.compile(r"^no private key found for "), _NO_PRIVATE_KEY),
)


_LOADED = re.compile(r"^(added|updated|replaced) vici connection: (?P<name>.+)$")


class Loads:
    """Detect connections that another program has loaded into charon.

    charon logs a line for each connection that it loads and cannot report a connection's proposals. So this line is the
    only sign of another program's change.
    """

    def __init__(self) -> None:
        self._awaited: Counter[str] = Counter()
        self.others: set[str] = set()
        """Connections that another program loaded after us."""

    def forget(self) -> None:
        """Forget everything, because a new log begins."""
        self._awaited.clear()
        self.others.clear()

    def begin(self, name: str) -> None:
        """Note that we load a connection."""
        self._awaited[name] += 1

    def refused(self, name: str) -> None:
        """Note that charon refused our connection, so that no line follows."""
        self._awaited[name] -= 1

    def feed(self, text: str) -> None:
        """Process one line."""
        if not (loaded := _LOADED.match(text)):
            return
        name = loaded["name"]
        if self._awaited[name] > 0:
            self._awaited[name] -= 1
            self.others.discard(name)
        else:
            self.others.add(name)


class IkeLog:
    """Follows negotiations line by line."""

    def __init__(self) -> None:
        self._negotiations: OrderedDict[str, _Negotiation] = OrderedDict()
        self._failures: dict[str, Cause] = {}

    def forget(self) -> None:
        """Forget all negotiations, because a new IKE daemon process numbers its SAs from the beginning."""
        self._negotiations.clear()
        self._failures.clear()

    def begin(self, peer: str) -> None:
        """Begin an attempt: earlier failures do not count for it."""
        self._failures.pop(peer, None)

    def failure(self, peer: str) -> Cause | None:
        """Return why the attempt with the peer failed; None if the log did not say."""
        return self._failures.get(peer)

    def feed(self, now: float, ike_name: str, unique_id: str, text: str) -> Setup | Failure | Asking | None:
        """Process one line, which arrived at ``now`` in monotonic seconds."""
        if not unique_id:
            return None
        if asking := _ASKING.match(text):
            return Asking(asking["address"])
        negotiation = self._of(unique_id)
        if ike_name and ike_name != _UNNAMED:
            negotiation.peer = ike_name
        if looking := _LOOKING.match(text):
            negotiation.address = looking["id"]
        return self._phase(negotiation, now, text) or self._failed(negotiation, text)

    def _of(self, unique_id: str) -> _Negotiation:
        if unique_id not in self._negotiations:
            self._negotiations[unique_id] = _Negotiation()
            if len(self._negotiations) > MAX_NEGOTIATIONS:
                self._negotiations.popitem(last=False)
        return self._negotiations[unique_id]

    def _phase(self, negotiation: _Negotiation, now: float, text: str) -> Setup | None:
        if _INIT_BEGINS.match(text):
            negotiation.init_at = negotiation.init_at or now
        elif _AUTH_BEGINS.match(text):
            negotiation.auth_at = now
        elif _CHILD_BEGINS.match(text):
            negotiation.child_at = now
        elif _CHILD_STANDS.match(text):
            return self._stands(negotiation, now)
        return None

    def _stands(self, negotiation: _Negotiation, now: float) -> Setup | None:
        """Return the set-up when its CHILD_SA is established.

        The first CHILD_SA comes with IKE_AUTH. The duration of CREATE_CHILD_SA counts only for the first set-up.
        """
        first, init, auth, child = negotiation.setup, negotiation.init_at, negotiation.auth_at, negotiation.child_at
        if first is None and init is not None and auth is not None:
            negotiation.setup = Setup(negotiation.peer, _span(init, auth), _span(auth, now))
        elif first is not None and first.child is None and child is not None:
            negotiation.setup = Setup(negotiation.peer, first.ike_sa_init, first.ike_auth, _span(child, now))
        return negotiation.setup if negotiation.setup is not first else None

    def _failed(self, negotiation: _Negotiation, text: str) -> Failure | None:
        found = find(_FAILURES, text)
        return self._told_once(negotiation, *found) if found else None

    def _told_once(self, negotiation: _Negotiation, cause: Cause, found: Mapping[str, str]) -> Failure | None:
        if negotiation.is_told:
            return None
        negotiation.is_told = True
        if negotiation.peer:
            self._failures[negotiation.peer] = cause
        return Failure(negotiation.peer, found.get("address") or negotiation.address, cause)


def _span(begin: float, end: float) -> float | None:
    """Return the time between two lines; None if they arrived together, because then it is not known."""
    return end - begin if end > begin else None

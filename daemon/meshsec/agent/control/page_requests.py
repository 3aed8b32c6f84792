"""Answer the page's process: it may look at everything, and changes nothing without an operator's login (ADR 0073)."""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from meshsec.adapters.sockets.control import ControlError
from meshsec.adapters.sockets.listeners import Place
from meshsec.agent.control.page_approvals import PageApprovals
from meshsec.agent.control.params import Method, Params, text
from meshsec.core.page.logins import SESSION_SECONDS, TOKEN_SECONDS, Logins
from meshsec.core.trust import card as cards

READING = frozenset({"ping", "status", "counters", "topology", "clients", "services", "doctor", "explain", "watch"})
"""The control socket's methods that are answered as they are."""
READING_WITHOUT_PARAMETERS = frozenset({"mode", "gateway", "join_requests"})
"""With parameters the first two change something."""
CHANGES = frozenset({"peer_add", "peer_remove", "join_refuse"})
"""The control socket's methods that a login may use as they are."""

_SECRET_BYTES = 24
"""192 bits, so that nobody finds one by trying."""

Answer = Callable[[str, Params], Awaitable[Mapping[str, Any]]]


class PageRequests:
    """The methods of the socket for those who only look, and those by which an operator lets the page do more."""

    def __init__(self, answer: Answer, clock: Callable[[], float], places: Callable[[], Collection[Place]]) -> None:
        """``answer`` answers the control socket's methods; ``clock`` gives monotonic seconds.

        ``places`` returns the addresses and ports at which the page listens for certain.
        """
        self._answer = answer
        self._clock = clock
        self._places = places
        self._logins = Logins()
        self._approvals = PageApprovals(answer, self._logins, clock)
        self.methods: Mapping[str, Method] = {
            "page_login": self._offer,
            "page_logout": self._end_all,
            **self._approvals.methods,
        }
        """Methods of the control socket."""
        self._own: Mapping[str, Method] = {
            "login": self._login,
            "logout": self._logout,
            "change": self._change,
            "positions": self._positions,
            "session": self._session,
        }

    async def answer(self, method: str, params: Params) -> Mapping[str, Any]:
        """Answer one method of the socket for those who only look. Raises ``ControlError``."""
        if method in self._own:
            return await self._own[method](params)
        if method in READING or (method in READING_WITHOUT_PARAMETERS and not params):
            return await self._answer(method, params)
        known = " ".join(sorted({*self._own, *READING, *READING_WITHOUT_PARAMETERS}))
        raise ControlError("unknown_method", f"{method!r} with parameters is none for those who only look: {known}")

    def end_all(self) -> int:
        """End all logins, and make tokens useless. Return how many logins there were."""
        return self._logins.end_all()

    async def _offer(self, params: Params) -> Mapping[str, Any]:
        """Return a token for a page at these addresses. Whoever else listens there would catch it.

        With a fleet, what its login approves is signed by the command that asks (ADR 0081).
        """
        wanted, port = _wanted(params), params.get("port")
        if foreign := [one for one in wanted if (one, port) not in self._places()]:
            raise ControlError(
                "refused",
                f"no login was made, because the page does not listen at {', '.join(foreign)} port {port}, and "
                "somebody else may: `systemctl restart meshsec-page` starts it, and "
                f"`ss -ltnp 'sport = :{port}'` shows who listens",
            )
        token = secrets.token_urlsafe(_SECRET_BYTES)
        signer = self._approvals.begin(text(params, "fleet")) if "fleet" in params else ""
        self._logins.offer(token, self._clock(), signer)
        return {"token": token, "seconds": TOKEN_SECONDS, **({"signer": signer} if signer else {})}

    async def _end_all(self, _params: Params) -> Mapping[str, Any]:
        return {"ended": self.end_all()}

    async def _login(self, params: Params) -> Mapping[str, Any]:
        session = secrets.token_urlsafe(_SECRET_BYTES)
        if not self._logins.begin(text(params, "token"), session, self._clock()):
            raise ControlError(
                "refused",
                "this login was used already, or is too old: `meshsec page login` prints another address",
            )
        return {"session": session, "seconds": SESSION_SECONDS, "approves": self._approvals.fleet_of(session)}

    async def _logout(self, params: Params) -> Mapping[str, Any]:
        self._logins.end(text(params, "session"))
        return {}

    async def _positions(self, params: Params) -> Mapping[str, Any]:
        """Answer for a browser on this machine, or with ``session`` for one that must be logged in (ADR 0076)."""
        if "session" in params:
            await self._session(params)
        return await self._answer("positions", {})

    async def _session(self, params: Params) -> Mapping[str, Any]:
        """Answer whether a session holds, for what the page's process shows only to who is logged in: the map."""
        if not self._logins.is_held(text(params, "session"), self._clock()):
            raise ControlError("not_logged_in", "only this machine and who is logged in see positions and the map")
        return {}

    async def _change(self, params: Params) -> Mapping[str, Any]:
        session = text(params, "session")
        if not self._logins.holds(session, self._clock()):
            raise ControlError("not_logged_in", "nobody is logged in: `meshsec page login` prints the address for it")
        method, given = text(params, "method"), params.get("params", {})
        if not isinstance(given, Mapping):
            raise ControlError("bad_params", f"params: {given!r} is not allowed; allowed: an object")
        if method == "card_read":
            return await self._approvals.read(given)
        if method == "join_approve":
            return await self._approvals.approve(session, given)
        if method not in CHANGES:
            known = " ".join(sorted({*CHANGES, "card_read", "join_approve"}))
            raise ControlError("unknown_method", f"{method!r} cannot be done here, but: {known}")
        if method == "peer_add":
            _refuse_networks(given)
        return await self._answer(method, given)


def _wanted(params: Params) -> Collection[str]:
    """Return the addresses in their usual form. Raises ControlError."""
    given = params.get("addresses")
    try:
        found = [str(ip_address(one)) for one in given] if isinstance(given, list) else []
    except ValueError:
        found = []
    if not found:
        raise ControlError("bad_params", f"addresses: {given!r} is not allowed; allowed: a list of addresses")
    return found


def _refuse_networks(params: Params) -> None:
    """Refuse a card that asks for networks. A person decides about them, whom only the command line asks (ADR 0062)."""
    with suppress(cards.CardError):
        if (card := cards.parse(text(params, "card"))).networks:
            asked = ", ".join(map(str, card.networks))
            message = f"the card asks to speak for {asked}: `meshsec peer add NAME CARD` asks whether it may"
            raise ControlError("refused", message)

"""Approve nodes through the page, with a key that neither the page nor meshsecd has (ADR 0081).

`meshsec page login --approve` has the fleet's key. It asks here what its login wants to be signed, and brings what it
has signed. Without it nothing is approved.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mnemonic import Mnemonic

from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control.params import Method, Params, text
from meshsec.core.page.logins import Logins
from meshsec.core.trust import card as cards
from meshsec.core.trust import fingerprint_words
from meshsec.core.values.model import Card

WANT_SECONDS = 2.0
"""Time for which the command waits here before it asks again."""
SIGN_SECONDS = 5.0
"""Time for the command to sign, and after which one that does not ask any more has ended."""
_SECRET_BYTES = 24
_COMMAND = "`meshsec page login --approve`"

_log = logging.getLogger(__name__)

Answer = Callable[[str, Params], Awaitable[Mapping[str, Any]]]


@dataclass
class Signer:
    """A command that signs."""

    fleet: str
    """The public key of its fleet, in hexadecimal digits."""
    asked_at: float
    """Monotonic time at which it asked last."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the approval that it signs."""
    wanted: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    """The card that it is to sign next."""
    approval: "Approval | None" = None
    """What waits for it."""


@dataclass(frozen=True)
class Approval:
    """An approval that waits for the command to sign."""

    card: str
    said: asyncio.Future[Mapping[str, Any]]
    signed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the command has answered, so that meshsecd may take its time to carry it out."""


class PageApprovals:
    """What logins approve, and the commands that sign it."""

    def __init__(self, answer: Answer, logins: Logins, clock: Callable[[], float]) -> None:
        """``answer`` answers the control socket's methods; ``clock`` gives monotonic seconds."""
        self._answer, self._logins, self._clock = answer, logins, clock
        self._signers: dict[str, Signer] = {}
        self.methods: Mapping[str, Method] = {"page_wanted": self._wanted}
        """Methods of the control socket."""

    def begin(self, fleet: str) -> str:
        """Return the secret by which a command is known that signs for this fleet."""
        now = self._clock()
        self._signers = {one: kept for one, kept in self._signers.items() if self._logins.knows_signer(one, now)}
        signer = secrets.token_urlsafe(_SECRET_BYTES)
        self._signers[signer] = Signer(fleet, now)
        return signer

    def fleet_of(self, session: str) -> str | None:
        """Return the public key of the fleet for which a login may approve; None: for none."""
        found = self._signers.get(self._logins.signer_of(session))
        return found.fleet if found else None

    async def read(self, params: Params) -> Mapping[str, Any]:
        """Return what is on a card, such as one in a photo, and whether its node asks to join. Raises ControlError."""
        card = _parsed(text(params, "card"))
        view = await self._answer("join_requests", {})
        return {
            "name": card.name,
            "address": str(card.address),
            "fingerprint": card.fingerprint.hex(),
            "words": list(fingerprint_words.spoken(card.fingerprint, Mnemonic("english").wordlist)),
            "asks": any(one["fingerprint"] == card.fingerprint.hex() for one in view["requests"]),
        }

    async def approve(self, session: str, params: Params) -> Mapping[str, Any]:
        """Have the card of a node that asks to join signed, without the networks on it. Raises ControlError."""
        signer = self._signer_of(session)
        card = await self._asked_card(signer.fleet, text(params, "fingerprint"))
        await self._answer("join_check", {"card": card})
        async with signer.turn:
            signer.approval = approval = Approval(card, asyncio.get_running_loop().create_future())
            signer.wanted.put_nowait(card)
            try:
                async with asyncio.timeout(SIGN_SECONDS):
                    await approval.signed.wait()
                return await approval.said
            except TimeoutError:
                raise ControlError("refused", _gone()) from None
            finally:
                signer.approval = None
                while not signer.wanted.empty():
                    signer.wanted.get_nowait()

    def _signer_of(self, session: str) -> Signer:
        signer = self._signers.get(self._logins.signer_of(session))
        if signer is None:
            message = f"this login may not approve; {_COMMAND}, run where the fleet's key is, prints one that may"
            raise ControlError("refused", message)
        if self._clock() - signer.asked_at > WANT_SECONDS + SIGN_SECONDS:
            raise ControlError("refused", _gone())
        return signer

    async def _asked_card(self, fleet: str, fingerprint: str) -> str:
        """Return the card of a request as it is to be signed: without networks, which a person has to decide about."""
        view = await self._answer("join_requests", {})
        for one in view["requests"]:
            if (one["fleet_key"], one["fingerprint"]) == (fleet, fingerprint):
                return cards.render(replace(_parsed(one["card"]), networks=()))
        message = "no node with this key asks to join the fleet any more; a node repeats its request every 30 s"
        raise ControlError("refused", message)

    async def _wanted(self, params: Params) -> Mapping[str, Any]:
        """Take what a command has signed, then wait for the next card. Only the command knows its secret."""
        name = text(params, "signer")
        signer = self._signers.get(name)
        if signer is None or not self._logins.knows_signer(name, self._clock()):
            self._signers.pop(name, None)
            return {"card": None, "ended": True, "failure": ""}
        if failure := await self._take(signer, params):
            return {"card": None, "ended": False, "failure": failure}
        card = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WANT_SECONDS):
                card = await signer.wanted.get()
        signer.asked_at = self._clock()
        return {"card": card, "ended": False, "failure": ""}

    async def _take(self, signer: Signer, params: Params) -> str:
        """Carry out what was signed, and answer the browser that waits. Return why it failed, or nothing."""
        signer.asked_at = self._clock()
        if "card" not in params:
            return ""
        approval = signer.approval
        if approval is None or approval.card != params["card"] or approval.signed.is_set():
            return "it was signed too late, and not carried out"
        approval.signed.set()
        failure = ControlError("failed", "it is not known whether the node is a member now; look at the peers")
        try:
            found = await self._carried_out(params)
            if not approval.said.done():
                approval.said.set_result(found)
        except ControlError as error:
            failure = error
            return str(error)
        finally:
            if not approval.said.done():
                approval.said.set_exception(failure)
        return ""

    async def _carried_out(self, params: Params) -> Mapping[str, Any]:
        """Approve what was signed. Raises ControlError, also where the command has refused to sign."""
        if refusal := params.get("refusal"):
            raise ControlError("refused", str(refusal))
        found = await self._answer("join_approve", {"signed": text(params, "signed")})
        _log.info("the page: a login has approved the node %s", found["address"])
        return found


def _parsed(card: str) -> Card:
    try:
        return cards.parse(card)
    except cards.CardError as error:
        raise ControlError("refused", str(error)) from error


def _gone() -> str:
    return f"nobody signs: {_COMMAND}, which printed this login, has ended or does not answer; run it again"

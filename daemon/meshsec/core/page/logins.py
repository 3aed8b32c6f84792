"""Who may change something through the page: a token is good for one login, and the login for a while (ADR 0073)."""

from dataclasses import dataclass, field, replace
from hashlib import sha256

TOKEN_SECONDS = 300.0
"""Time for opening the printed address; long enough to send it to a phone."""
SESSION_SECONDS = 3600.0
"""Time without a change after which a login ends; a browser that was left open must not stay an operator."""
MOST = 16
"""Tokens, and logins, at a time. The oldest one goes first."""


@dataclass(frozen=True, slots=True)
class _Right:
    """What a secret is good for."""

    until: float
    signer: str = ""
    """The command that signs what the login approves; empty: it approves nothing (ADR 0081)."""


_NONE = _Right(float("-inf"))


@dataclass
class Logins:
    """Tokens that nobody has used yet, and logins. Only their digests are kept. Times are monotonic seconds."""

    _tokens: dict[bytes, _Right] = field(default_factory=dict)
    _sessions: dict[bytes, _Right] = field(default_factory=dict)
    """What each is good for, by digest, the oldest first."""

    def offer(self, token: str, now: float, signer: str = "") -> None:
        """Let a token log in once, for ``TOKEN_SECONDS``. ``signer`` signs what the login approves."""
        _add(self._tokens, token, _Right(now + TOKEN_SECONDS, signer), now)

    def begin(self, token: str, session: str, now: float) -> bool:
        """Use a token up and begin a session. Return whether the token was good."""
        right = self._tokens.pop(_digest(token), _NONE)
        return self._prolong(session, right, now)

    def holds(self, session: str, now: float) -> bool:
        """Return whether a session has not ended, and prolong it."""
        right = self._sessions.pop(_digest(session), _NONE)
        return self._prolong(session, right, now)

    def _prolong(self, session: str, right: _Right, now: float) -> bool:
        if right.until <= now:
            return False
        _add(self._sessions, session, replace(right, until=now + SESSION_SECONDS), now)
        return True

    def signer_of(self, session: str) -> str:
        """Return who signs what a session approves; empty: nobody. Ask ``holds`` first."""
        return self._sessions.get(_digest(session), _NONE).signer

    def knows_signer(self, signer: str, now: float) -> bool:
        """Return whether a token or a session is left for which this one signs."""
        kept = (*self._tokens.values(), *self._sessions.values())
        return any(one.signer == signer and one.until > now for one in kept)

    def end(self, session: str) -> None:
        """End one session."""
        self._sessions.pop(_digest(session), None)

    def end_all(self) -> int:
        """End all sessions and tokens. Return how many sessions there were."""
        count = len(self._sessions)
        self._tokens.clear()
        self._sessions.clear()
        return count


def _add(kept: dict[bytes, _Right], secret: str, right: _Right, now: float) -> None:
    for digest in [digest for digest, one in kept.items() if one.until <= now]:
        del kept[digest]
    while len(kept) >= MOST:
        del kept[next(iter(kept))]
    kept[_digest(secret)] = right


def _digest(secret: str) -> bytes:
    """Return what is kept of a secret. Looking a digest up says nothing about the secret by the time it takes."""
    return sha256(secret.encode(errors="surrogatepass")).digest()

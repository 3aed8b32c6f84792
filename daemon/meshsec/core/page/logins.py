"""Who may change something through the page: a token is good for one login, and the login for a while (ADR 0073)."""

from dataclasses import dataclass, field
from hashlib import sha256

TOKEN_SECONDS = 300.0
"""Time for opening the printed address; long enough to send it to a phone."""
SESSION_SECONDS = 3600.0
"""Time without a change after which a login ends; a browser that was left open must not stay an operator."""
MOST = 16
"""Tokens, and logins, at a time. The oldest one goes first."""


@dataclass
class Logins:
    """Tokens that nobody has used yet, and logins. Only digests are kept. Times are monotonic seconds."""

    _tokens: dict[bytes, float] = field(default_factory=dict)
    _sessions: dict[bytes, float] = field(default_factory=dict)
    """The end of each, by digest, the oldest first."""

    def offer(self, token: str, now: float) -> None:
        """Let a token log in once, for ``TOKEN_SECONDS``."""
        _add(self._tokens, token, now + TOKEN_SECONDS, now)

    def begin(self, token: str, session: str, now: float) -> bool:
        """Use a token up and begin a session. Return whether the token was good."""
        if self._tokens.pop(_digest(token), now) <= now:
            return False
        _add(self._sessions, session, now + SESSION_SECONDS, now)
        return True

    def holds(self, session: str, now: float) -> bool:
        """Return whether a session has not ended, and prolong it."""
        if self._sessions.pop(_digest(session), now) <= now:
            return False
        _add(self._sessions, session, now + SESSION_SECONDS, now)
        return True

    def is_held(self, session: str, now: float) -> bool:
        """Return whether a session has not ended, and let it end when it would: looking is no change."""
        return self._sessions.get(_digest(session), now) > now

    def end(self, session: str) -> None:
        """End one session."""
        self._sessions.pop(_digest(session), None)

    def end_all(self) -> int:
        """End all sessions and tokens. Return how many sessions there were."""
        count = len(self._sessions)
        self._tokens.clear()
        self._sessions.clear()
        return count


def _add(kept: dict[bytes, float], secret: str, until: float, now: float) -> None:
    for digest in [digest for digest, end in kept.items() if end <= now]:
        del kept[digest]
    while len(kept) >= MOST:
        del kept[next(iter(kept))]
    kept[_digest(secret)] = until


def _digest(secret: str) -> bytes:
    """Return what is kept of a secret. Looking a digest up says nothing about the secret by the time it takes."""
    return sha256(secret.encode(errors="surrogatepass")).digest()

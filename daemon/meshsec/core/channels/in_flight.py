"""The actions on their way: at most one about each subject, and a delay after a failure."""

from enum import Enum, auto
from typing import NamedTuple

from meshsec.core.channels.actions import (
    Action,
    ApplyRules,
    Initiate,
    IpsecAction,
    Keep,
    LoadConnection,
    LoadKey,
    OverlayAction,
    Permit,
    RouteOverlay,
    Terminate,
    UnloadConnection,
)
from meshsec.core.policy.limits import Backoff
from meshsec.core.policy.policy import Policy


class Kind(Enum):
    """Sorts of subjects; the last two are those of timers alone."""

    RULES = auto()
    PERMIT = auto()
    KEEP = auto()
    OVERLAY_ROUTES = auto()
    KEY = auto()
    CONNECTION = auto()
    INITIATE = auto()
    TERMINATE = auto()
    PEER = auto()
    QUEUE = auto()


class Subject(NamedTuple):
    """What an action or a timer is about."""

    kind: Kind
    peer: str = ""
    unique_id: str = ""


RULES = Subject(Kind.RULES)
_OVERLAY = {Permit: Kind.PERMIT, Keep: Kind.KEEP, RouteOverlay: Kind.OVERLAY_ROUTES}
_NOT_IKE = frozenset({Kind.RULES, *_OVERLAY.values()})
QUEUE = Subject(Kind.QUEUE)


def subject_of(action: Action) -> Subject:
    """What ``action`` is about. Loading and unloading a configuration are about the same."""
    if isinstance(action, ApplyRules):
        return RULES
    return Subject(_OVERLAY[type(action)]) if isinstance(action, OverlayAction) else _ipsec_subject(action)


def _ipsec_subject(action: IpsecAction) -> Subject:
    match action:
        case LoadKey():
            return Subject(Kind.KEY)
        case LoadConnection(spec):
            return Subject(Kind.CONNECTION, spec.name)
        case UnloadConnection(name):
            return Subject(Kind.CONNECTION, name)
        case Initiate(peer):
            return Subject(Kind.INITIATE, peer)
        case Terminate(unique_id, peer):
            return Subject(Kind.TERMINATE, peer, unique_id)


class Errands:
    """What was asked of the agent and is not answered yet."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._outbox: list[Action] = []
        self._in_progress: dict[Subject, Action] = {}
        self._retries: dict[Subject, Backoff] = {}

    def in_progress(self, subject: Subject) -> bool:
        """Whether an action about it is on its way."""
        return subject in self._in_progress

    def due(self, subject: Subject) -> float:
        """Before when nothing is tried again (monotonic seconds)."""
        return self._retries[subject].due if subject in self._retries else 0.0

    def send(self, now: float, action: Action) -> None:
        """Ask for ``action``, unless one about the same is on its way or the delay after a failure is not over."""
        subject = subject_of(action)
        if subject not in self._in_progress and self.due(subject) <= now:
            self._in_progress[subject] = action
            self._outbox.append(action)

    def drain(self) -> list[Action]:
        """What was asked for since the last call, in order."""
        actions, self._outbox = self._outbox, []
        return actions

    def answer(self, action: Action) -> bool:
        """Take the answer to ``action``; False when nobody waits for it (any more)."""
        subject = subject_of(action)
        if self._in_progress.get(subject) != action:
            return False
        del self._in_progress[subject]
        return True

    def failed(self, now: float, subject: Subject, random: float) -> float:
        """Note a failure; when to try again."""
        backoff = self._retries.get(subject, Backoff()).failed(now, self._policy, random)
        self._retries[subject] = backoff
        return backoff.due

    def settled(self, subject: Subject) -> None:
        """Nothing is to be tried again about it."""
        self._retries.pop(subject, None)

    def forget_ike(self) -> None:
        """Give up all that was asked of the IKE daemon: it is another one now, or away."""
        self._outbox = [action for action in self._outbox if subject_of(action).kind in _NOT_IKE]
        self._in_progress = {
            subject: action for subject, action in self._in_progress.items() if subject.kind in _NOT_IKE
        }
        self._retries = {subject: backoff for subject, backoff in self._retries.items() if subject.kind in _NOT_IKE}

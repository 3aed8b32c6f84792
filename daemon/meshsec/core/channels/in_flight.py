"""The actions in flight: at most one about each subject, and a delay after a failure."""

from meshsec.core.channels.actions import Action, Kind, Subject
from meshsec.core.policy.limits import Backoff
from meshsec.core.policy.policy import Policy

_NOT_IKE = frozenset({Kind.RULES, Kind.PERMIT, Kind.KEEP, Kind.OVERLAY_ROUTES, Kind.TUNNEL})


class ActionsInFlight:
    """The actions that the agent was given and has not answered yet."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._outbox: list[Action] = []
        self._unanswered: dict[Subject, Action] = {}
        self._retries: dict[Subject, Backoff] = {}

    def has(self, subject: Subject) -> bool:
        """Return whether an action about the subject is in flight."""
        return subject in self._unanswered

    def due(self, subject: Subject) -> float:
        """Return the monotonic time before which no action about the subject must be sent again."""
        return self._retries[subject].due if subject in self._retries else 0.0

    def send(self, now: float, action: Action) -> None:
        """Send ``action`` unless one about its subject is in flight or the delay after a failure lasts."""
        subject = action.subject
        if subject not in self._unanswered and self.due(subject) <= now:
            self._unanswered[subject] = action
            self._outbox.append(action)

    def drain(self) -> list[Action]:
        """Return the actions sent since the last call, in order."""
        actions, self._outbox = self._outbox, []
        return actions

    def answer(self, action: Action) -> bool:
        """Take the answer to ``action``. False when nothing waits for it (any more)."""
        if self._unanswered.get(action.subject) != action:
            return False
        del self._unanswered[action.subject]
        return True

    def failed(self, now: float, subject: Subject, random: float) -> float:
        """Record a failure; return the monotonic time of the next try."""
        backoff = self._retries.get(subject, Backoff()).failed(now, self._policy, random)
        self._retries[subject] = backoff
        return backoff.due

    def settled(self, subject: Subject) -> None:
        """Forget the failures about a subject that needs no further try."""
        self._retries.pop(subject, None)

    def forget_ike(self) -> None:
        """Give up what the IKE daemon was asked: it has restarted or is away."""
        self._outbox = [action for action in self._outbox if action.subject.kind in _NOT_IKE]
        self._unanswered = {subject: one for subject, one in self._unanswered.items() if subject.kind in _NOT_IKE}
        self._retries = {subject: backoff for subject, backoff in self._retries.items() if subject.kind in _NOT_IKE}

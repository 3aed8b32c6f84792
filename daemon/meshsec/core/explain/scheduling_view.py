"""``meshsec explain --scheduling``: which class each daemon has and why, as a JSON value and in sentences.

Schema: docs/reference/schema/meshsec-scheduling-1.json.
"""

from dataclasses import dataclass
from typing import Any

from meshsec.core.scheduling.governor import Decision, Governor, lateness
from meshsec.core.scheduling.governor_modes import Mode
from meshsec.core.scheduling.profiles import STOCK, Applied, Profile

View = dict[str, Any]

SCHEMA = "meshsec-scheduling-1"


@dataclass(frozen=True, slots=True)
class Known:
    """What the agent knows beside the governor."""

    profile: Profile = STOCK
    pid: int = 0
    """charon's process; 0 when it is not seen."""
    applied: tuple[Applied, ...] = ()
    source: str = ""
    """What is measured, and what this host does not show."""
    problem: str = ""
    """Why nothing can be changed at all."""
    poller: int | None = None
    """charon's thread that waits for its sockets; None while it is not known."""

    @property
    def ranks_poller(self) -> bool:
        """Whether charon can have a real-time class here, in which that thread has a lower priority than the others."""
        return bool(self.pid) and self.profile.can_be_realtime("charon")


def view(known: Known, governor: Governor | None, now: float) -> View:
    """Everything. ``now``: monotonic seconds, those of the governor."""
    return {
        "schema": SCHEMA,
        "profile": known.profile.name,
        "description": known.profile.description,
        "problem": known.problem,
        "services": [_service(one) for one in known.applied],
        "poller": known.poller,
        "governor": _governor(known, governor, now) if governor else None,
        "sentences": sentences(known, governor, now),
    }


def sentences(known: Known, governor: Governor | None, now: float) -> list[str]:
    """Return the sentences from the profile to what happens next."""
    found = [f"The profile is {known.profile.name}: {known.profile.description}"]
    found += [f"Nothing can be changed: {known.problem}."] if known.problem else []
    found += [_explain_service(one) for one in known.applied]
    found += _explain_poller(known)
    if governor is None:
        return [*found, "No governor runs: the classes stay as they are."]
    return [
        *found,
        _explain_level(known.profile, governor),
        _explain_contention(known, governor),
        _explain_floor(known.profile, governor),
        *_explain_setup(governor),
        _explain_budget(governor),
        *_explain_streams(governor),
        *_explain_refusal(known.profile, governor),
        *(_explain_decision(known.profile, one, now) for one in reversed(governor.history)),
    ]


def class_text(profile: Profile, level: int) -> str:
    """Return the class of a level, 0 being charon's own."""
    if level:
        return str(profile.ladder[level - 1])
    base = profile.class_of("charon")
    return "as it was started" if base is None else str(base)


def _service(applied: Applied) -> View:
    return {
        "service": applied.service,
        "pid": applied.pid or None,
        "wanted": str(applied.wanted),
        "in_force": None if applied.in_force is None else str(applied.in_force),
        "threads": applied.threads,
        "problem": applied.problem,
        "group": applied.group,
        "behind": list(applied.behind),
    }


def _governor(known: Known, governor: Governor, now: float) -> View:
    ladder, load, measured = governor.ladder, governor.load, governor.load.contention
    return {
        "mode": str(governor.mode),
        "level": governor.level,
        "class": class_text(known.profile, governor.level),
        "reason": governor.reason,
        "ladder": [class_text(known.profile, level) for level in range(ladder.top + 1)],
        "ceiling": ladder.ceiling,
        "refusal": ladder.refusal,
        "floor": ladder.floor,
        "start": ladder.start,
        "negotiating": list(governor.negotiating),
        "deadline_ms": _milliseconds(governor.settings.deadline),
        "contended": load.contended,
        "busy": load.busy,
        "crowded": load.crowded,
        "measures": known.source,
        "delay_ms": _milliseconds(measured.delay),
        "starving": measured.starving,
        "pressure": measured.pressure,
        "queued": measured.queued,
        "budget": _budget(governor),
        "streams": [{"stream": name, "report": text} for name, text in governor.streams.texts.items()],
        "last_setup": _setup(governor, now),
        "decisions": [_decision(known.profile, one, now) for one in governor.history],
    }


def _budget(governor: Governor) -> View:
    return {
        "share": governor.budget.share,
        "share_limit": governor.settings.share,
        "left_ms": _milliseconds(governor.budget.left),
        "burst_ms": _milliseconds(governor.settings.burst),
        "spent_ms": _milliseconds(governor.budget.spent),
    }


def _setup(governor: Governor, now: float) -> View | None:
    last = governor.last_setup
    if last is None:
        return None
    return {
        "peer": last.event.peer,
        "ago": now - last.at,
        "level": last.level,
        "took_ms": _milliseconds(last.event.took),
        "waited_ms": _milliseconds(last.event.waited),
        "late_by_cpu": last.late_by_cpu,
    }


def _decision(profile: Profile, decision: Decision, now: float) -> View:
    return {
        "ago": now - decision.at,
        "before": class_text(profile, decision.before),
        "class": class_text(profile, decision.level),
        "level": decision.level,
        "mode": str(decision.mode),
        "reason": decision.reason,
    }


def _explain_service(applied: Applied) -> str:
    has = "was left as it is" if applied.in_force is None else f"has {applied.in_force}, {applied.threads} threads"
    why = f"; wanted was {applied.wanted}: {applied.problem}" if applied.problem else ""
    group = f"; {applied.group}" if applied.group else ""
    return f"{applied.service} {has}{why}{group}."


def _explain_poller(known: Known) -> list[str]:
    """Explain why one of the threads has a lower class than the others."""
    if not known.ranks_poller:
        return []
    if known.poller is None:
        return ["Which of charon's threads waits for its sockets is not known yet: all get the same priority."]
    waits = f"Thread {known.poller} of charon waits for its sockets"
    has = next((one.in_force for one in known.applied if known.poller in one.behind), None)
    if has is None:
        return [f"{waits}: with a real-time class it has one priority less than the others."]
    return [f"{waits}: it has one priority less than the others, with {has.one_behind}."]


_MODES = {
    Mode.ABSENT: "there is no charon to govern",
    Mode.REST: "no negotiation runs or is expected",
    Mode.NEGOTIATING: "a negotiation runs or is expected",
    Mode.LINGERING: "the last negotiation ended, and another may follow",
    Mode.GUARDING: "others keep its processors busy, and a peer may begin unannounced",
    Mode.SPENT: "the budget is used up, so there is no privilege until half of it has recovered",
}


def _explain_level(profile: Profile, governor: Governor) -> str:
    has = class_text(profile, governor.level)
    return f"charon's class is {has} (level {governor.level} of {governor.ladder.top}): {_MODES[governor.mode]}."


def _explain_contention(known: Known, governor: Governor) -> str:
    source = f" Measured: {known.source}." if known.source else ""
    text = governor.load.text
    return f"{text[0].upper()}{text[1:]}.{source}"


def _explain_floor(profile: Profile, governor: Governor) -> str:
    ladder = governor.ladder
    begins, start = class_text(profile, ladder.floor), min(ladder.start, ladder.ceiling)
    if ladder.floor and ladder.floor >= start:
        return f"The next negotiation begins with {begins}, because {ladder.floor_reason}."
    if start:
        return f"The next negotiation begins with {class_text(profile, start)}, as each does ([scheduling] head_start)."
    return "No level was needed lately: the next negotiation begins with the first, or with none where none waits."


def _explain_setup(governor: Governor) -> list[str]:
    last = governor.last_setup
    if last is None:
        return []
    verdict = "the CPU made it late" if last.late_by_cpu else "the CPU did not make it late"
    return [f"Last, {lateness(last.event, governor.settings.deadline)}: {verdict}."]


def _explain_budget(governor: Governor) -> str:
    budget, limit = governor.budget, governor.settings
    held = "" if budget.share >= limit.share else f", held down from {limit.share:.0%} for the protected streams"
    return (
        f"Privileged CPU time: {budget.spent * 1000:.0f} ms so far, {budget.left * 1000:.0f} of "
        f"{limit.burst * 1000:.0f} ms left; {budget.share:.1%} of a processor flow in{held}."
    )


def _explain_streams(governor: Governor) -> list[str]:
    return [f"The stream {name} reported: {text}." for name, text in governor.streams.texts.items()]


def _explain_refusal(profile: Profile, governor: Governor) -> list[str]:
    ladder = governor.ladder
    if ladder.ceiling == ladder.top:
        return []
    return [f"No more than {class_text(profile, ladder.ceiling)} is given here: {ladder.refusal}."]


def _explain_decision(profile: Profile, decision: Decision, now: float) -> str:
    before, after = class_text(profile, decision.before), class_text(profile, decision.level)
    return f"{now - decision.at:.1f} s ago: from {before} to {after}, {decision.reason}."


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)

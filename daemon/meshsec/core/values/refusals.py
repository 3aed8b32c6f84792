"""What the routing daemon refused lately: values for doctor, never for decisions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """Somebody whose packets were refused. The address is that of the packets, and can be forged."""

    interface: str
    address: str
    count: int
    originator: str = ""
    """Router in whose name the messages were, where this is a claim. The source may have passed them on."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What olsrv2d refused for one reason in the last one to two minutes."""

    counter: str
    """olsrv2d's counter: ``over_limit``, ``rate_limited``, ``malformed``, ``spoofed``, ``disbelieved``, ``forged``,
    ``replayed`` or ``not_signed``."""
    count: int
    sources: tuple[Source, ...] = ()
    """Those with most first, at most sixteen."""
    further_sources: int = 0
    """Least number of further sources; large when somebody invents addresses."""
    claims: tuple[Source, ...] = ()
    """In whose name most of it was, and by whom it came, those with most first, at most sixteen."""

"""What the guest measures: a block of set-ups for each case, which host and guest name by the same text. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from rt.sa_setup.plan import BOTH_LOADS, PLACES

_NO_LOAD = "none"


@dataclass(frozen=True)
class Case:
    """The circumstances of one block."""

    profile: str
    """The scheduling profile of the receiver while it has no processor of its own."""
    suite: str
    """One of ``rt.sa_setup.policy.SUITES``."""
    place: str
    """The node that shares its processor with the load, or would: ``relay`` or ``receiver``."""
    nice: int | None = None
    """Of the load; None: there is none."""

    def __str__(self) -> str:
        return ",".join((self.profile, self.suite, self.place, _NO_LOAD if self.nice is None else str(self.nice)))

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the case whose text it is."""
        profile, suite, place, nice = text.split(",")
        return cls(profile, suite, place, None if nice == _NO_LOAD else int(nice))


def of_paper(nice: Sequence[int]) -> Iterator[Case]:
    """Return the cases of the paper's figures 8 and 9, each place beside the same without load."""
    for profile, suite in BOTH_LOADS:
        for place in PLACES:
            for value in (None, *nice):
                yield Case(profile, suite, place, value)

"""One-way times between two nodes, or the refusal to report them: ``python -m rt.measure.one_way FILE``.

A packet's way from one clock to another takes what the second says less what the first said, give or take how far the
clocks are apart. Nobody sees that from the times themselves, so it has to be bounded by what chronyd of each node
tells, before and after, and where it cannot be, there is no result: half of the round trip is no substitute, for the
way there and the way back need not take the same time.

FILE is JSON: ``{"from": ADDRESS, "to": ADDRESS, "before": {ADDRESS: LINE, ...}, "after": {...},
"samples": [[SENT, RECEIVED], ...]}``, where LINE is ``chronyc -n -c tracking`` of that node, and times are seconds.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meshsec.core.explain.clock import Tracking, UnboundedError, apart, parse, root_of
from rt.measure.results import Cell

Clocks = Mapping[str, Tracking]


@dataclass(frozen=True)
class OneWay:
    """Times of packets from one node to another, seconds; each may be wrong by ``error``."""

    times: Sequence[float]
    error: float

    def cell(self, key: Mapping[str, object]) -> Cell:
        """As a benchmark reports it: with the error beside the figures."""
        return Cell({**key, "error_ms": round(1e3 * self.error, 6)}, "ms", [1e3 * time for time in self.times])


def one_way(ends: tuple[str, str], samples: Sequence[tuple[float, float]], before: Clocks, after: Clocks) -> OneWay:
    """Return the times between ``ends``, the addresses of sender and receiver.

    ``before`` and ``after`` the samples: a clock that changed its source or lost it meanwhile is not bounded by one of
    them alone. Raises UnboundedError: without a bound, or when the bound is proved wrong because a packet arrived
    before it was sent by more than that.
    """
    if not samples:
        raise UnboundedError("there is no sample")
    error = max(apart(*ends, clocks) for clocks in (before, after))
    ways = [[(clocks[end].reference, root_of(end, clocks)) for end in ends] for clocks in (before, after)]
    if changed := [end for end, was, now in zip(ends, *ways, strict=True) if was != now]:
        raise UnboundedError(f"the clock of {', '.join(changed)} changed its source meanwhile")
    times = [received - sent for sent, received in samples]
    if min(times) < -error:
        raise UnboundedError(
            f"a packet arrived {-min(times):.6f} s before it was sent, with clocks {error:.6f} s apart"
        )
    return OneWay(times, error)


def read(document: Mapping[str, Any]) -> OneWay:
    """Return the times in a decoded FILE. Raises UnboundedError; KeyError, TypeError or ValueError for another form."""
    before, after = ({node: parse(line) for node, line in document[key].items()} for key in ("before", "after"))
    samples = [(float(sent), float(received)) for sent, received in document["samples"]]
    return one_way((document["from"], document["to"]), samples, before, after)


def main(argv: Sequence[str]) -> int:
    """Print the times as a benchmark's cell, or why there are none."""
    if len(argv) != 1:
        print("usage: python -m rt.measure.one_way FILE", file=sys.stderr)
        return 2
    try:
        document = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
        found = read(document)
    except UnboundedError as error:
        print(f"{argv[0]}: no one-way times: {error}", file=sys.stderr)
        return 1
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        print(f"{argv[0]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found.cell({"from": document["from"], "to": document["to"]}).as_dict(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Read what hackbench prints (rt-tests): how long its processes took to pass their messages."""

import re

GROUPS, LOOPS = 4, 500
"""Work of a measurement: groups of 20 senders and 20 receivers; messages from each sender to each receiver."""
_TIME = re.compile(r"^Time: ([0-9]+(?:\.[0-9]+)?)$", re.MULTILINE)


def milliseconds(text: str) -> float:
    """Return the time. Raises ValueError if there is none."""
    found = _TIME.search(text)
    if found is None:
        raise ValueError("hackbench printed no time")
    return float(found[1]) * 1000

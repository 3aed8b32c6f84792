"""Read what ping(8) of iputils prints: the round trips that came back, and how many did not."""

import re

_TRIP = re.compile(r"\btime=([0-9]+(?:\.[0-9]+)?) ms\b")
_SENT = re.compile(r"^([0-9]+) packets transmitted, ([0-9]+) received\b", re.MULTILINE)


def read(text: str) -> tuple[list[float], float]:
    """Return the round trips in milliseconds, and the share that was lost in per cent. Raises ValueError.

    What came twice (`DUP!`) counts once.
    """
    said = _SENT.search(text)
    if said is None or not int(said[1]):
        raise ValueError("ping printed no summary")
    trips = [float(found[1]) for line in text.splitlines() if "DUP!" not in line and (found := _TRIP.search(line))]
    return trips, 100 * (1 - min(int(said[2]), int(said[1])) / int(said[1]))

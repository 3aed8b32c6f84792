"""What Agosto-Padilla's dissertation (2016), section 3.2, says of its congestion experiment: figures 2 to 5.

The text gives some values as numbers and others as differences to these; here all are numbers. Each is the average of
three runs. Its clients were an iPhone 5 and an iPad 2, at a Linksys access point of 802.11n on 2.4 GHz.
"""

from typing import NamedTuple

CITATION = "Agosto-Padilla, Towards Wireless Bare Machines, Towson University 2016"


class Point(NamedTuple):
    """One client in one of the figures."""

    figure: int
    congestion: int
    """Mbit/s of the others' traffic on the wire."""
    how: str
    client: str
    throughput: float
    """Mbit/s of all packets of the connection."""
    delay: float
    """Milliseconds from the request to the last acknowledgement."""


POINTS = (
    Point(2, 0, "single", "iPhone", 24, 126),
    Point(2, 0, "single", "iPad", 17, 154),
    Point(2, 0, "paired", "iPhone", 16, 163),
    Point(2, 0, "paired", "iPad", 13, 231),
    Point(3, 100, "single", "iPhone", 22, 133),
    Point(3, 100, "single", "iPad", 15, 184),
    Point(3, 100, "paired", "iPhone", 15, 227),
    Point(3, 100, "paired", "iPad", 13, 203),
    Point(4, 125, "single", "iPhone", 19, 152),
    Point(4, 125, "single", "iPad", 12, 198),
    Point(4, 125, "paired", "iPhone", 11, 276),
    Point(4, 125, "paired", "iPad", 11, 267),
    Point(5, 150, "single", "iPhone", 16, 248),
    Point(5, 150, "single", "iPad", 18, 193),
    Point(5, 150, "paired", "iPhone", 17, 168),
    Point(5, 150, "paired", "iPad", 12, 251),
)
"""Figures 2 to 5."""
LEVELS = (0, 100, 125, 150)


def curve(client: str, how: str, what: str) -> dict[int, list[float]]:
    """Return a client's throughput or delay by congestion."""
    found = [point for point in POINTS if (point.client, point.how) == (client, how)]
    return {point.congestion: [point.throughput if what == "throughput" else point.delay] for point in found}

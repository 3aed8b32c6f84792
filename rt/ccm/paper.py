"""What Agosto-Padilla's dissertation (2016), section 5.4, says of AES-CCM, in milliseconds for 1000 messages.

The text gives only the shortest and the longest messages of each figure. Its machines were two Dell GX 960 on an
Ethernet switch: "bare" is its own program without an operating system, "Linux" is OpenSSL.
"""

from typing import NamedTuple

CITATION = "Agosto-Padilla, Towards Wireless Bare Machines, Towson University 2016"
SHORTEST, LONGEST = 50, 1000


class Row(NamedTuple):
    """One curve of a figure: its values at 50 and at 1000 octets."""

    figure: int
    end: str
    other: str
    what: str
    shortest: float
    longest: float


ROWS = (
    Row(13, "bare", "bare", "sending, sealed", 11.5, 66.5),
    Row(13, "bare", "Linux", "sending, sealed", 24, 79.75),
    Row(13, "bare", "bare", "sending, plain", 4.25, 9.25),
    Row(13, "bare", "Linux", "sending, plain", 16.25, 21.5),
    Row(14, "Linux", "bare", "sending, sealed", 10, 84),
    Row(14, "Linux", "Linux", "sending, sealed", 10, 84),
    Row(14, "Linux", "bare", "sending, plain", 6, 79),
    Row(14, "Linux", "Linux", "sending, plain", 6, 80),
    Row(15, "bare", "bare", "receiving, sealed", 31.5, 89.25),
    Row(15, "bare", "Linux", "receiving, sealed", 32, 90.25),
    Row(15, "bare", "bare", "receiving, plain", 13.75, 85.5),
    Row(15, "bare", "Linux", "receiving, plain", 13.75, 85.5),
    Row(16, "Linux", "bare", "receiving, sealed", 24, 91),
    Row(16, "Linux", "Linux", "receiving, sealed", 15, 91),
    Row(16, "Linux", "bare", "receiving, plain", 17, 86),
    Row(16, "Linux", "Linux", "receiving, plain", 10, 86),
)
"""Figures 13 to 16."""


def curve(end: str, what: str) -> dict[int, list[float]]:
    """Return the values of both ends of a curve, against each other end."""
    rows = [row for row in ROWS if (row.end, row.what) == (end, what)]
    return {SHORTEST: [row.shortest for row in rows], LONGEST: [row.longest for row in rows]}

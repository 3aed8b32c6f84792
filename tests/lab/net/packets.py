"""What the lab sends as user data, and what a captured packet is, as the product tells it."""

from meshsec.core.leaktest import packets
from meshsec.core.leaktest.packets import SNAPLEN, Kind

__all__ = ["MARK", "SNAPLEN", "Classifier", "Kind"]

MARK = b"meshsec-lab-data"
"""Every payload that the lab sends as user data holds these 16 octets (as many as `ping -p` takes): where they can be
read on a link, the data was in the clear."""


class Classifier(packets.Classifier):
    """Knows the lab's user data by its mark."""

    def __init__(self) -> None:
        super().__init__(MARK)

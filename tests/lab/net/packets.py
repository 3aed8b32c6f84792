"""The mark in the lab's user data, and the classifier that finds it in captured packets."""

from meshsec.core.leaktest import packets
from meshsec.core.leaktest.packets import SNAPLEN, Kind

__all__ = ["MARK", "SNAPLEN", "Classifier", "Kind"]

MARK = b"meshsec-lab-data"
"""16 bytes in every payload that the lab sends as user data (as many as ``ping -p`` takes). Where they can be read on a
link, the data was in the clear."""


class Classifier(packets.Classifier):
    """Recognises the lab's user data by its mark."""

    def __init__(self) -> None:
        super().__init__(MARK)

"""The values that the decoders give: one frame, as a monitor interface has seen it."""

from dataclasses import dataclass
from enum import StrEnum

from meshsec.core.air.rates import AGGREGATING, Rate


class FrameError(Exception):
    """Bytes are no frame of 802.11 with a radiotap header; the message says what was found and what is allowed."""


class Kind(StrEnum):
    """What a frame is for, as far as an exchange depends on it."""

    RTS = "RTS"
    CTS = "CTS"
    ACK = "ack"
    BLOCK_ACK = "BA"
    BLOCK_ACK_REQUEST = "BAR"
    DATA = "data"
    NULL = "null"
    """QoS Null and Null: a data frame without data."""
    BEACON = "beacon"
    MANAGEMENT = "management"
    OTHER = "other"
    """PS-Poll, CF-End, and kinds that came after 802.11-2020."""


PAYLOADS = frozenset({Kind.DATA, Kind.NULL, Kind.BEACON, Kind.MANAGEMENT, Kind.BLOCK_ACK_REQUEST})
"""What a station contends for, and what its receiver answers."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. Addresses are lower-case text with colons."""

    kind: Kind
    receiver: str
    transmitter: str | None
    """None: frames of this kind do not say (CTS, ack)."""
    octets: int
    """With the FCS, also where the capture has cut it."""
    clock_ns: int
    """Nanoseconds on the capturing machine's clock, since 1970."""
    tsft: int | None = None
    """Microseconds of the radio's timer when the first bit of the frame arrived; None: the radio does not say."""
    rate: Rate | None = None
    """None: the radiotap header has none that is known."""
    retry: bool = False
    sequence: int | None = None
    """Sequence and fragment number; None for control frames."""
    tid: int | None = None
    wants_answer: bool = False
    burst: int | None = None
    """The reference number of its A-MPDU."""
    sent: bool = False
    """This radio itself has sent it: the header has its fate."""
    failed: bool = False
    """The radio itself has sent it, and nobody answered."""
    radio_retries: int = 0
    """How often the radio itself has sent it again."""
    damaged: bool = False
    """The FCS does not match: nothing in it can be relied on but its time."""

    @property
    def ppdu(self) -> tuple[str, int] | None:
        """What all frames of one A-MPDU share: the radio's reference number, or at least the time; None: nothing."""
        if self.burst is not None:
            return "reference", self.burst
        if self.tsft is None or self.rate is None or self.rate.phy not in AGGREGATING:
            return None
        return "time", self.tsft

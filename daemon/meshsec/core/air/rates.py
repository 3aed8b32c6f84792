"""Compute how long a frame is on the air, from the rate at which it was sent (TXTIME of IEEE 802.11-2020).

DSSS and HR/DSSS are in 15.3.3 and 16.2.2, OFDM in 17.4.3, ERP in 18.5.3, HT in 19.4.3 and VHT in 21.4.3. HE is not
computed.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

SUBFRAME_HEADER = 4
"""Octets before each MPDU of an A-MPDU, which is padded to a multiple of as many (9.7.1)."""
_SERVICE_AND_TAIL = 16 + 6
"""Bits around the data of an OFDM frame."""
_EXTENSION = 6.0
"""Microseconds of silence that end each frame with OFDM in 2.4 GHz (signal extension)."""
_LONG, _SHORT = 192.0, 96.0
"""Microseconds of DSSS's preamble and header."""
_CARRIERS = {20: 52, 40: 108, 80: 234, 160: 468}
"""Subcarriers with data of HT and VHT by the channel's width."""
_CODED = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 4.5, 5.0, 6.0, 20 / 3)
"""Bits of data on a subcarrier in a symbol, by HT's MCS modulo 8 or VHT's MCS."""
_HT_TRAININGS = (1, 2, 4, 4)
_VHT_TRAININGS = (1, 2, 4, 4, 6, 6, 8, 8)
"""Long training fields by the number of streams."""
_DUPLICATE = 32
"""The MCS that sends 6 Mbit/s twice, on both halves of 40 MHz."""
_RATE_OF_TWO_ENCODERS = {"HT": 300.0, "VHT": 600.0}
"""Mbit/s above which there is one more encoder."""


class Phy(StrEnum):
    """How a frame was modulated."""

    DSSS = "DSSS"
    OFDM = "OFDM"
    HT = "HT"
    VHT = "VHT"


AGGREGATING = frozenset({Phy.HT, Phy.VHT})
"""What sends A-MPDUs."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The modulation of one frame, as far as its time on the air depends on it."""

    phy: Phy
    legacy: float = 0.0
    """Mbit/s of DSSS or OFDM."""
    mcs: int = 0
    """0 to 32 for HT, 0 to 9 for VHT."""
    streams: int = 1
    """Spatial streams; HT's MCS contains them."""
    width: int = 20
    """MHz. Half (10) and quarter (5) channels exist for OFDM."""
    short_preamble: bool = False
    short_gi: bool = False
    greenfield: bool = False
    stbc: bool = False
    extended: bool = False
    """In 2.4 GHz, where OFDM ends with the signal extension."""

    @property
    def mbit(self) -> float:
        """Bits per microsecond."""
        if self.phy in (Phy.DSSS, Phy.OFDM):
            return self.legacy
        return self._bits / (3.6 if self.short_gi else 4.0)

    @property
    def label(self) -> str:
        """The rate as people write it, such as ``HT40 MCS 7 SGI``."""
        if self.phy in (Phy.DSSS, Phy.OFDM):
            return f"{self.legacy:g} Mbit/s"
        streams = f"x{self.streams}" if self.phy is Phy.VHT else ""
        return f"{self.phy}{self.width} MCS {self.mcs}{streams}{' SGI' if self.short_gi else ''}"

    @property
    def preamble(self) -> float:
        """Microseconds before the first octet of the frame."""
        if self.phy is Phy.DSSS:
            return _SHORT if self.short_preamble and self.legacy > 1 else _LONG
        if self.phy is Phy.OFDM:
            return 20.0 * self._slower
        if self.phy is Phy.VHT:
            return 36.0 + 4 * _VHT_TRAININGS[self._space_time - 1]
        trainings = _HT_TRAININGS[self._space_time - 1]
        return 24.0 + 4 * (trainings - 1) if self.greenfield else 32.0 + 4 * trainings

    def airtime(self, octets: int) -> float:
        """Return the microseconds of a frame of so many octets, with its FCS."""
        if self.phy is Phy.DSSS:
            return self.preamble + ceil(8 * octets / self.legacy)
        extension = _EXTENSION if self.extended else 0.0
        if self.phy is Phy.OFDM:
            symbols = ceil((_SERVICE_AND_TAIL + 8 * octets) / (4 * self.legacy * self._slower))
            return self.preamble + 4 * self._slower * symbols + extension
        blocks = 2 if self.stbc else 1
        bits = 16 + 6 * self._encoders + 8 * octets
        symbols = blocks * ceil(bits / (blocks * self._bits) - 1e-9)
        data = 4 * ceil(3.6 * symbols / 4 - 1e-9) if self.short_gi else 4 * symbols
        return self.preamble + data + extension

    @property
    def _slower(self) -> int:
        """How many times longer than in 20 MHz a symbol of OFDM is."""
        return max(1, 20 // self.width)

    @property
    def _bits(self) -> float:
        """Bits of data in a symbol of HT or VHT."""
        if self.phy is Phy.HT and self.mcs == _DUPLICATE:
            return 24.0
        coded = _CODED[self.mcs % 8 if self.phy is Phy.HT else self.mcs]
        return _CARRIERS[self.width] * coded * self._spatial

    @property
    def _spatial(self) -> int:
        if self.phy is Phy.HT:
            return 1 if self.mcs == _DUPLICATE else self.mcs // 8 + 1
        return self.streams

    @property
    def _space_time(self) -> int:
        """Streams that leave the antennas: STBC sends each of a few twice."""
        most = len(_HT_TRAININGS) if self.phy is Phy.HT else len(_VHT_TRAININGS)
        return min(self._spatial * (2 if self.stbc else 1), most)

    @property
    def _encoders(self) -> int:
        return max(1, ceil(self.mbit / _RATE_OF_TWO_ENCODERS[self.phy] - 1e-9))


def aggregated(octets: int) -> int:
    """Return the octets that a frame takes in an A-MPDU, with its delimiter and padding."""
    return SUBFRAME_HEADER + -(-octets // SUBFRAME_HEADER) * SUBFRAME_HEADER

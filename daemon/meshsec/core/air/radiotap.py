"""Decode radiotap headers (radiotap.org): what the radio says of a frame that it has received or sent.

No header raises anything but FrameError, and every offset is checked against the header's own length. The first word of
present flags has all that is used; later words (a namespace for each antenna, vendors) are skipped.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from meshsec.core.air.frames import FrameError
from meshsec.core.air.rates import Phy, Rate

_HEADER = struct.Struct("<BxHI")
_WORD = struct.Struct("<I")
_MORE_WORDS = 1 << 31
_TSFT, _FLAGS, _RATE, _CHANNEL, _TX_FLAGS, _DATA_RETRIES, _MCS, _AMPDU, _VHT = 0, 1, 2, 3, 15, 17, 19, 20, 21
_FIELDS: Mapping[int, tuple[int, int]] = {
    _TSFT: (8, 8),
    _FLAGS: (1, 1),
    _RATE: (1, 1),
    _CHANNEL: (2, 4),
    4: (1, 2),  # FHSS
    5: (1, 1),  # antenna signal in dBm
    6: (1, 1),  # antenna noise in dBm
    7: (2, 2),  # lock quality
    8: (2, 2),  # TX attenuation
    9: (2, 2),  # TX attenuation in dB
    10: (1, 1),  # TX power
    11: (1, 1),  # antenna
    12: (1, 1),  # antenna signal in dB
    13: (1, 1),  # antenna noise in dB
    14: (2, 2),  # RX flags
    _TX_FLAGS: (2, 2),
    16: (1, 1),  # RTS retries
    _DATA_RETRIES: (1, 1),
    18: (4, 8),  # XChannel
    _MCS: (1, 3),
    _AMPDU: (4, 8),
    _VHT: (2, 12),
}
"""Alignment and length of the fields, by the number of their present flag. What comes later is not used."""
_SHORT_PREAMBLE, _HAS_FCS, _BAD_FCS, _SHORT_GI = 0x02, 0x10, 0x40, 0x80
_IS_2GHZ, _IS_HALF, _IS_QUARTER = 0x0080, 0x4000, 0x8000
_TX_FAILED = 0x0001
_DSSS = {2, 4, 11, 22}
_OFDM = {12, 18, 24, 36, 48, 72, 96, 108}
"""Rates in 500 kbit/s."""
_MCS_KNOWN, _MOST_MCS = 0x02, 32
_VHT_WIDTHS = (20, 40, 20, 20, 80, 40, 40, 20, 20, 20, 20, 160, 80, 80, 40, 40, 40, 40, *(20,) * 8)
"""MHz by the field ``bandwidth``: some name a part of a wider channel."""


@dataclass(frozen=True, slots=True)
class Radiotap:
    """What of a header is used."""

    length: int
    tsft: int | None = None
    rate: Rate | None = None
    has_fcs: bool = False
    bad_fcs: bool = False
    burst: int | None = None
    sent: bool = False
    failed: bool = False
    retries: int = 0


def decode(content: bytes) -> Radiotap:
    """Decode the header at the beginning of a packet. Raises FrameError."""
    if len(content) < _HEADER.size:
        raise FrameError(f"{len(content)} bytes are too few for a radiotap header, which has {_HEADER.size} or more")
    version, length, present = _HEADER.unpack_from(content)
    if version:
        raise FrameError(f"a radiotap header of version {version} was found; only version 0 exists")
    if not _HEADER.size <= length <= len(content):
        allowed = f"{_HEADER.size} to {len(content)} are allowed"
        raise FrameError(f"the radiotap header says that it has {length} bytes; {allowed}")
    header = content[:length]
    fields = dict(_fields(header, present))
    flags = fields.get(_FLAGS, b"\0")[0]
    tx_flags = fields.get(_TX_FLAGS)
    return Radiotap(
        length=length,
        tsft=int.from_bytes(fields[_TSFT], "little") if _TSFT in fields else None,
        rate=_rate(fields, flags),
        has_fcs=bool(flags & _HAS_FCS),
        bad_fcs=bool(flags & _BAD_FCS),
        burst=int.from_bytes(fields[_AMPDU][:4], "little") if _AMPDU in fields else None,
        sent=tx_flags is not None,
        failed=tx_flags is not None and bool(tx_flags[0] & _TX_FAILED),
        retries=fields[_DATA_RETRIES][0] if _DATA_RETRIES in fields else 0,
    )


def _fields(header: bytes, present: int) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of the first word, in their order, up to the first that is not known."""
    place, word = _HEADER.size, present
    while word & _MORE_WORDS:
        if place + _WORD.size > len(header):
            raise FrameError(f"the radiotap header ends at byte {len(header)}, within its present flags")
        (word,) = _WORD.unpack_from(header, place)
        place += _WORD.size
    for number, (alignment, length) in sorted(_FIELDS.items()):
        if not present & 1 << number:
            continue
        place = -(-place // alignment) * alignment
        if place + length > len(header):
            raise FrameError(f"the radiotap header ends at byte {len(header)}, within field {number}")
        yield number, header[place : place + length]
        place += length


def _rate(fields: Mapping[int, bytes], flags: int) -> Rate | None:
    channel = int.from_bytes(fields[_CHANNEL][2:], "little") if _CHANNEL in fields else 0
    frequency = int.from_bytes(fields[_CHANNEL][:2], "little") if _CHANNEL in fields else 0
    extended = bool(channel & _IS_2GHZ) or 2400 <= frequency < 2500
    if _VHT in fields:
        return _vht(fields[_VHT], extended)
    if _MCS in fields:
        return _ht(fields[_MCS], extended)
    return _legacy(fields.get(_RATE, b"\0")[0], flags, channel, extended)


def _legacy(value: int, flags: int, channel: int, extended: bool) -> Rate | None:
    if value in _DSSS:
        return Rate(Phy.DSSS, value / 2, short_preamble=bool(flags & _SHORT_PREAMBLE))
    width = 5 if channel & _IS_QUARTER else 10 if channel & _IS_HALF else 20
    full = value * 20 // width
    """The rate in a channel of 20 MHz; the header has the real one."""
    if full in _OFDM:
        return Rate(Phy.OFDM, value / 2, width=width, extended=extended)
    return Rate(Phy.OFDM, value / 2, extended=extended) if value in _OFDM else None


def _ht(field: bytes, extended: bool) -> Rate | None:
    known, flags, mcs = field
    if not known & _MCS_KNOWN or mcs > _MOST_MCS:
        return None
    return Rate(
        Phy.HT,
        mcs=mcs,
        streams=1 if mcs == _MOST_MCS else mcs // 8 + 1,
        width=40 if known & 0x01 and flags & 0x03 == 1 else 20,
        short_gi=bool(known & 0x04 and flags & 0x04),
        greenfield=bool(known & 0x08 and flags & 0x08),
        stbc=bool(known & 0x20 and flags & 0x60),
        extended=extended,
    )


def _vht(field: bytes, extended: bool) -> Rate | None:
    """Decode the rate of the first user."""
    known, flags, bandwidth, user = struct.unpack_from("<HBBB", field)
    mcs, streams = user >> 4, user & 0x0F
    if mcs > 9 or not 1 <= streams <= 8 or bandwidth >= len(_VHT_WIDTHS):
        return None
    return Rate(
        Phy.VHT,
        mcs=mcs,
        streams=streams,
        width=_VHT_WIDTHS[bandwidth] if known & 0x40 else 20,
        short_gi=bool(known & 0x04 and flags & 0x04),
        stbc=bool(known & 0x01 and flags & 0x01),
        extended=extended,
    )

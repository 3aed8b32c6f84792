"""Decode the MAC header of a frame (IEEE 802.11-2020, 9.2 and 9.3) behind its radiotap header.

No bytes raise anything but FrameError. Of the frame's body nothing is read.
"""

from meshsec.core.air import radiotap
from meshsec.core.air.frames import Frame, FrameError, Kind

_FCS = 4
_MANAGEMENT, _CONTROL, _DATA = 0, 1, 2
_BEACON, _ACTION_NO_ACK = 8, 14
_CONTROLS = {8: Kind.BLOCK_ACK_REQUEST, 9: Kind.BLOCK_ACK, 11: Kind.RTS, 12: Kind.CTS, 13: Kind.ACK}
_WITHOUT_TRANSMITTER = frozenset({Kind.CTS, Kind.ACK})
_QOS, _NO_DATA = 0x8, 0x4
"""Bits of a data frame's subtype."""
_TO_DS, _FROM_DS, _RETRY = 0x01, 0x02, 0x08
_NO_ACK = 1
"""The ack policy of frames that nobody answers."""
_GROUP = 0x01
"""The bit of the first octet of an address that means a group."""


def decode(content: bytes, octets: int, clock_ns: int) -> Frame:
    """Decode one packet of a monitor interface.

    ``octets`` is its length before the capture cut it; ``clock_ns`` is the time of the capture since 1970. Raises
    FrameError.
    """
    header = radiotap.decode(content)
    mac = content[header.length :]
    if len(mac) < 10:
        raise FrameError(f"{len(mac)} bytes after the radiotap header are too few for a frame, which has 10 or more")
    version, kind, subtype = mac[0] & 0x03, mac[0] >> 2 & 0x03, mac[0] >> 4
    if version:
        raise FrameError(f"a frame of version {version} was found; only version 0 is known")
    what = _kind(kind, subtype)
    transmitter = None if what in _WITHOUT_TRANSMITTER else _address(mac, 10)
    numbered = what not in _CONTROLS.values() and what is not Kind.OTHER
    tid, policy = _qos(mac) if kind == _DATA and subtype & _QOS else (None, 0)
    unanswered = policy == _NO_ACK or (kind == _MANAGEMENT and subtype == _ACTION_NO_ACK)
    return Frame(
        kind=what,
        receiver=_address(mac, 4) or "",
        transmitter=transmitter,
        octets=max(octets - header.length, len(mac)) + (0 if header.has_fcs else _FCS),
        clock_ns=clock_ns,
        tsft=header.tsft,
        rate=header.rate,
        retry=bool(mac[1] & _RETRY),
        sequence=int.from_bytes(mac[22:24], "little") if numbered and len(mac) >= 24 else None,
        tid=tid,
        wants_answer=what is not Kind.OTHER and not mac[4] & _GROUP and not unanswered,
        burst=header.burst,
        sent=header.sent,
        failed=header.failed,
        radio_retries=header.retries,
        damaged=header.bad_fcs,
    )


def _kind(kind: int, subtype: int) -> Kind:
    if kind == _DATA:
        return Kind.NULL if subtype & _NO_DATA else Kind.DATA
    if kind == _MANAGEMENT:
        return Kind.BEACON if subtype == _BEACON else Kind.MANAGEMENT
    return _CONTROLS.get(subtype, Kind.OTHER) if kind == _CONTROL else Kind.OTHER


def _qos(mac: bytes) -> tuple[int | None, int]:
    """Return the TID and the ack policy, which a capture may have cut."""
    place = 30 if mac[1] & _TO_DS and mac[1] & _FROM_DS else 24
    if len(mac) <= place:
        return None, 0
    return mac[place] & 0x0F, mac[place] >> 5 & 0x03


def _address(mac: bytes, place: int) -> str | None:
    found = mac[place : place + 6]
    return found.hex(":") if len(found) == 6 else None

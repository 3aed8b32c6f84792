"""Capture packets on all interfaces of this network namespace, including later ones (packet(7))."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from meshsec.core.leaktest.judge import Sight
from meshsec.core.leaktest.packets import SNAPLEN

_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_LOOPBACK, _RADIOTAP, _NO_LINK_LAYER = 772, 803, 65534  # ARPHRD_* of linux/if_arp.h
_RECEIVE_BUFFER = 32 << 20
_WAIT = 0.1
"""Seconds of silence after which all packets so far count as read."""
_LATE = 2.0
"""Seconds that a reader may continue after its end, on links that are never silent."""


class CaptureError(Exception):
    """Packets cannot be captured here."""


class Capture:
    """Pass each packet to ``take``, in a separate thread, from the beginning to the end of a ``with`` block.

    Left out are loopback, monitor interfaces (they show 802.11 frames), and the TUN devices in ``inside``, where user
    data is not protected yet or no longer.
    """

    def __init__(self, take: Callable[[Sight], None], inside: Collection[str] = (), *, loopback: bool = False) -> None:
        self._take = take
        self._inside = frozenset(inside)
        self._hidden = frozenset({_RADIOTAP} if loopback else {_LOOPBACK, _RADIOTAP})
        self._ends_at: float | None = None
        self._thread = threading.Thread(target=self._read, name="capture", daemon=True)
        self.lost = 0
        """Packets lost for lack of buffer space, known at the end."""
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
        except PermissionError as error:
            raise CaptureError("capturing packets needs root (CAP_NET_RAW)") from error
        except OSError as error:
            raise CaptureError(f"packets cannot be captured: {error.strerror}") from error
        self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _RECEIVE_BUFFER)
        self._socket.settimeout(_WAIT)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends_at = time.monotonic()
        self._thread.join()
        _, self.lost = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        self._socket.close()

    def _read(self) -> None:
        while self._ends_at is None or time.monotonic() < self._ends_at + _LATE:
            try:
                payload, (name, ethertype, kind, hardware, _) = self._socket.recvfrom(SNAPLEN)
            except TimeoutError:
                if self._ends_at is not None:
                    return
                continue
            except OSError:
                continue  # an interface went down
            is_inside = hardware == _NO_LINK_LAYER and name in self._inside
            if not is_inside and hardware not in self._hidden:
                self._take(Sight(name, kind == socket.PACKET_OUTGOING, ethertype, payload))

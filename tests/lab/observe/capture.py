"""Captures what crosses a node's mesh interfaces, classifies it at once and keeps it as pcap files."""

import errno
import os
import selectors
import socket
import struct
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.net import namespaces
from tests.lab.net.packets import SNAPLEN, Classifier, Kind

_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_SO_TIMESTAMPNS = 35
_RECEIVE_BUFFER = 64 << 20
_ARPHRD_IEEE80211_RADIOTAP = 803  # linux/if_arp.h
_LINKTYPE_ETHERNET, _LINKTYPE_RADIOTAP = 1, 127


class Capture:
    """What crosses one or more interfaces of a namespace, from ``start`` to ``stop``.

    ``counts`` and ``first`` grow while it runs; ``clear`` keeps the beginning of the first packets in the clear.
    ``sent`` counts only the packets that the node itself put on a link: the kernel shows an inner packet that it has
    decapsulated as if it had come in on the link, so only its sender's capture says what went over the link.
    """

    _CLEAR_KEPT = 16

    def __init__(self, namespace: str, interfaces: Sequence[str], directory: Path) -> None:
        self.namespace = namespace
        self.interfaces = tuple(interfaces)
        self.directory = directory
        self.counts: Counter[Kind] = Counter()
        self.sent: Counter[Kind] = Counter()
        self.first: dict[Kind, float] = {}
        """Time of the first packet of each kind, in seconds on the realtime clock, from the kernel."""
        self.clear: list[str] = []
        self.lost = 0
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)
        pipes = (self._wake_read, self._wake_write, self._stop_read, self._stop_write)
        # A test keeps its captures after they have stopped, and a run has hundreds.
        self._release = weakref.finalize(self, _close, pipes)
        self._thread = threading.Thread(target=self._read, name=f"capture {namespace}", daemon=True)
        self._sockets: list[socket.socket] = []

    def start(self) -> Self:
        """Start the capture: every packet after this call is seen."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._sockets = namespaces.within(self.namespace, lambda: [_open(name) for name in self.interfaces])
        self._thread.start()
        return self

    def stop(self) -> Self:
        """Count everything that has passed up to now, then stop."""
        if self._sockets:
            os.write(self._stop_write, b".")
            self._thread.join()
            for source in self._sockets:
                self.lost += struct.unpack("=II", source.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
                source.close()
            self._sockets = []
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def fileno(self) -> int:
        """Return the descriptor that is readable when packets of a kind came for the first time."""
        return self._wake_read

    def drain(self) -> bool:
        """Read all wake-ups."""
        return bool(os.read(self._wake_read, 4096))

    def since(self, earlier: Counter[Kind]) -> Counter[Kind]:
        """Return what passed since ``earlier``, a copy of ``counts``."""
        return Counter({kind: count - earlier[kind] for kind, count in self.counts.items() if count > earlier[kind]})

    def close(self) -> None:
        """Stop and release everything."""
        self.stop()
        self._release()

    def _read(self) -> None:
        link_types = [_LINKTYPE_RADIOTAP if _is_radio(s) else _LINKTYPE_ETHERNET for s in self._sockets]
        with _PcapFiles(self.directory, dict(zip(self.interfaces, link_types, strict=True))) as files:
            readers = [(s, Classifier(), name) for s, name in zip(self._sockets, self.interfaces, strict=True)]
            with selectors.DefaultSelector() as selector:
                selector.register(self._stop_read, selectors.EVENT_READ)
                for source, _, _ in readers:
                    selector.register(source, selectors.EVENT_READ)
                stopping = False
                while not stopping:
                    stopping = any(key.fd == self._stop_read for key, _ in selector.select())
                    for reader in readers:
                        self._take(*reader, files)

    def _take(self, source: socket.socket, classifier: Classifier, name: str, files: "_PcapFiles") -> None:
        while True:
            try:
                frame, ancillary, _, address = source.recvmsg(65536, 64)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENETDOWN):  # A link that was down comes up again.
                    raise
                return
            at = _timestamp(ancillary)
            files.write(name, at, frame)
            kind = (classifier.air if _is_radio(source) else classifier.frame)(frame[:SNAPLEN])
            self.sent[kind] += address[2] == socket.PACKET_OUTGOING
            self._count(kind, at, name, frame)

    def _count(self, kind: Kind, at: float, name: str, frame: bytes) -> None:
        self.counts[kind] += 1
        if kind not in self.first:
            self.first[kind] = at
            os.write(self._wake_write, b".")
        if kind is Kind.CLEAR and len(self.clear) < self._CLEAR_KEPT:
            self.clear.append(f"{name}: {frame[:96].hex()}")


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _PcapFiles:
    """One pcap file for each interface, so that each has its own link type and direction."""

    def __init__(self, directory: Path, link_types: Mapping[str, int]) -> None:
        self._files = {name: (directory / f"{name}.pcap").open("wb") for name in link_types}
        self._link_types = link_types

    def __enter__(self) -> Self:
        for name, file in self._files.items():  # the magic number says that times are in nanoseconds
            file.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, self._link_types[name]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()

    def write(self, name: str, at: float, frame: bytes) -> None:
        kept = frame[:SNAPLEN]
        seconds, fraction = divmod(at, 1)
        self._files[name].write(struct.pack("=IIII", int(seconds), int(fraction * 1e9), len(kept), len(frame)) + kept)


def _open(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: nothing is received before bind
    opened.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _RECEIVE_BUFFER)
    opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    opened.setblocking(False)
    opened.bind((interface, _ETH_P_ALL))
    return opened


def _is_radio(source: socket.socket) -> bool:
    """Return whether the socket listens on a monitor interface."""
    return bool(source.getsockname()[3] == _ARPHRD_IEEE80211_RADIOTAP)


def _timestamp(ancillary: list[tuple[int, int, bytes]]) -> float:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("=qq", data[:16])
            return int(seconds) + int(nanoseconds) / 1e9
    return time.time()

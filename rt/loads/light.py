"""What runs in the guest beside the set-ups: the likeness of a live encoder, a neighbour's stream, waiting user data.

    python rt/loads/light.py encode ADDRESS PEER    computes without end; a frame leaves for PEER each sixtieth second
    python rt/loads/light.py send ADDRESS PEER      sends 20 Mbit/s of video to PEER
    python rt/loads/light.py knock ADDRESS PEER     sends a small packet each 5 ms

x264 itself is too heavy for an emulated processor: it would not encode one frame of 720p in the time of sixty. What
matters to the scheduler is there: a process that always wants the processor, in user mode, and packets in both
directions. ping does not do for knocking: in intervals this short it never sleeps. Each says ``ready`` when it runs,
and on SIGTERM what it sent and received, as JSON. Standard library only, and no import of ours: its start counts in the
guest.
"""

import json
import signal
import socket
import sys
import time
import zlib
from typing import NoReturn

PORT = 5004
FRAMES_PER_SECOND = 60
FRAME = (1300,) * 6
"""Octets of the packets of a frame: 4 Mbit/s."""
BURSTS = {"send": (1250,) * 10, "knock": (64,)}
BURST_SECONDS = 0.005
_PICTURE = bytes(range(256)) * 16
"""Compressed again and again; some 100 microseconds each time."""


class _EndError(Exception):
    """SIGTERM."""


def _end(_number: int, _frame: object) -> None:
    raise _EndError


def main() -> int:
    """Run one of the three until SIGTERM."""
    role, address, peer = sys.argv[1:]
    signal.signal(signal.SIGTERM, _end)
    found = {"sent": 0, "received": 0}
    with socket.socket(socket.AF_INET6 if ":" in peer else socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((address, PORT))
        opened.connect((peer, PORT))
        opened.setblocking(False)
        print("ready", flush=True)
        try:
            if role == "encode":
                _encode(opened, found)
            _send(opened, found, BURSTS[role])
        except _EndError:
            print(json.dumps(found), flush=True)
    return 0


def _encode(opened: socket.socket, found: dict[str, int]) -> NoReturn:
    """Encode frames; a late one is dropped, as a camera does."""
    while True:
        due = time.monotonic() + 1 / FRAMES_PER_SECOND
        while time.monotonic() < due:
            zlib.compress(_PICTURE)
        found["sent"] += _put(opened, FRAME)
        found["received"] += _drain(opened)


def _send(opened: socket.socket, found: dict[str, int], burst: tuple[int, ...]) -> NoReturn:
    due = time.monotonic()
    while True:
        found["sent"] += _put(opened, burst)
        due += BURST_SECONDS
        time.sleep(max(0.0, due - time.monotonic()))


def _put(opened: socket.socket, lengths: tuple[int, ...]) -> int:
    """Send packets; how many went. One that finds no way, no room, no listener or no SA is lost."""
    went = 0
    for length in lengths:
        try:
            opened.send(bytes(length))
        except OSError:
            continue
        went += 1
    return went


def _drain(opened: socket.socket) -> int:
    taken = 0
    while True:
        try:
            opened.recv(2048)
        except (BlockingIOError, ConnectionRefusedError):
            return taken
        taken += 1


if __name__ == "__main__":
    sys.exit(main())

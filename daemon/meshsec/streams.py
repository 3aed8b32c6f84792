"""What the clients of other daemons' UNIX sockets share."""

import asyncio
import socket
import struct
from pathlib import Path


def peer_pid(writer: asyncio.StreamWriter) -> int:
    """Return the process at the other end, as the kernel reports it (unix(7), SO_PEERCRED)."""
    return _peer_pid(writer.get_extra_info("socket"))


def listener(path: Path) -> int:
    """Return the process that listens at a socket, as the kernel reports it; 0 if none does. Nothing is sent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(str(path))
        except OSError:
            return 0
        return _peer_pid(connection)


def _peer_pid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[0])


def failure_text(error: BaseException, late: str, max_line: int) -> str:
    """Return why the stream of a daemon ended. ``late`` says what did not come in time."""
    if isinstance(error, TimeoutError):
        return late
    if isinstance(error, asyncio.IncompleteReadError):
        return "it closed the connection"
    if isinstance(error, asyncio.LimitOverrunError):
        return f"a line of more than {max_line} octets"
    return str(error) or type(error).__name__

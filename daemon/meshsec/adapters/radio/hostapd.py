"""Tell hostapd who has left its access point (its control interface, hostapd_cli(1))."""

import socket
from contextlib import suppress
from pathlib import Path


class HostapdError(Exception):
    """hostapd cannot be told; the text says why."""


def forget(control: Path, mac: str) -> None:
    """Have hostapd forget a client without a word to it: it is at another access point, and may come back.

    ``control`` is the socket of its interface. A hostapd that does not run knows no client. Raises HostapdError.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asking:
        try:
            with suppress(FileNotFoundError, ConnectionRefusedError):
                asking.connect(str(control))
                asking.send(f"DEAUTHENTICATE {mac} tx=0".encode("ascii"))
        except OSError as error:
            raise HostapdError(f"{control}: hostapd was not told that {mac} has left: {error}") from error

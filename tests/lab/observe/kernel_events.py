"""Events of the kernel in a namespace: a route has changed, a packet has passed."""

import socket
from contextlib import suppress

from tests.lab.net import namespaces

_RTMGRP_IPV4_ROUTE, _RTMGRP_IPV6_ROUTE = 0x40, 0x400  # linux/rtnetlink.h
_ETH_P_ALL = 0x0003  # linux/if_ether.h


class RouteEvents:
    """A source that is readable when the kernel has changed a route in a namespace."""

    def __init__(self, namespace: str) -> None:
        self._socket = namespaces.within(namespace, self._open)

    @staticmethod
    def _open() -> socket.socket:
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        opened.bind((0, _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_ROUTE))
        return opened

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read one event; an overrun counts as an event too."""
        with suppress(OSError):
            self._socket.recv(1 << 16)
        return True

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()


class PacketEvents:
    """A source that is readable when a packet has passed any interface of a namespace."""

    def __init__(self, namespace: str) -> None:
        self._socket = namespaces.within(namespace, self._open)

    @staticmethod
    def _open() -> socket.socket:
        return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read one packet."""
        self._socket.recv(1)
        return True

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

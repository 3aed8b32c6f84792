"""``meshsecd --hear-clients``: the process that hears the frames of clients, and has no other privilege.

What it hears comes from strangers, so that it only takes frames apart and tells meshsecd what they say.
"""

import asyncio
import contextlib
import logging
import socket
from pathlib import Path

from meshsec.adapters.sockets.client_frames import FramesError, client_frames
from meshsec.adapters.sockets.notify import Notifier
from meshsec.adapters.sockets.sightings import Teller
from meshsec.core.access.shared_address import DEVICE

LOOK = 2.0
"""Seconds between two looks whether the bridge is still the one that is heard. At each look meshsecd gets a sign of
life."""

_log = logging.getLogger(__name__)


async def run(path: Path) -> None:
    """Hear until cancelled, as soon as there is the bridge. ``path`` is meshsecd's socket."""
    teller, told = Teller(path), ""
    Notifier().ready()
    while True:
        problem = ""
        try:
            with client_frames(DEVICE, teller.tell):
                await _while_it_is_there(teller)
        except FramesError as error:
            problem = str(error)
        if problem and problem != told:
            _log.warning("%s", problem)
        told = problem
        await asyncio.sleep(LOOK if problem else 0)


async def _while_it_is_there(teller: Teller) -> None:
    index = _index()
    while _index() == index:
        teller.alive()
        await asyncio.sleep(LOOK)


def _index() -> int:
    with contextlib.suppress(OSError):
        return socket.if_nametoindex(DEVICE)
    return 0

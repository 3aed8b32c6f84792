"""Listening sockets of the page, which meshsecd holds as well, so that nobody takes their ports while a login is good.

The page's process connects to a socket of meshsecd's, gets the listening sockets that its predecessor has left, and
gives those at which it listens (SCM_RIGHTS, unix(7)). meshsecd reads nothing from them and accepts nothing. It closes
them when the page's process has been away for a while, and says so, because the ports are anybody's then.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path

from meshsec.adapters.sockets.control import give_to_group

GROUP = "meshsec-page-port"
"""The group that may use the socket, if it exists. Only the page's process is in it, because a process that gets the
sockets could accept a browser's connection in the page's place, and catch a login."""
MOST = 64
"""Sockets of one page: three or four, and one for each access network."""
AWAY_SECONDS = 60.0
"""Time for which the sockets are held without the page's process; a restart takes a second or two."""
GIVE_SECONDS = 5.0
"""Time in which a process that has connected must give its sockets."""
START_SECONDS = 2.0
"""Time for which the page's process waits, at its start, for what its predecessor has left."""
RETRY_SECONDS = 1.0
"""Time after which what has failed is tried again."""
_HELLO = b"listeners"

_log = logging.getLogger(__name__)

Place = tuple[str, int]
"""An address, in its usual form, and a TCP port."""


class Keeper:
    """meshsecd's end. It holds what the page's process gave last."""

    def __init__(self, path: Path, on_end: Callable[[], object]) -> None:
        """``on_end`` is called when a place is given up that was held until now."""
        self._path, self._on_end = path, on_end
        self._loop = asyncio.get_running_loop()
        self._held: tuple[socket.socket, ...] = ()
        self._serving: asyncio.Task[None] | None = None
        self._giver: asyncio.Task[None] | None = None
        self._release: asyncio.TimerHandle | None = None

    @property
    def places(self) -> frozenset[Place]:
        """Where the page listens, and so nobody else."""
        return frozenset(place(one) for one in self._held)

    def start(self) -> None:
        """Wait for the page's process. Raises OSError."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.setblocking(False)
            self._path.unlink(missing_ok=True)
            listener.bind(str(self._path))
            give_to_group(self._path, GROUP)
            listener.listen()
        except OSError:
            listener.close()
            raise
        self._serving = self._loop.create_task(self._serve(listener))

    def close(self) -> None:
        """Give everything up. The logins end with meshsecd."""
        for task in (self._serving, self._giver):
            if task:
                task.cancel()
        self._stay()
        self._hold(())
        self._path.unlink(missing_ok=True)

    async def _serve(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    connection, _ = await self._loop.sock_accept(listener)
                except OSError as error:  # such as EMFILE: the page waits meanwhile
                    _log.warning("%s: %s", self._path, error)
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if self._giver:
                    self._giver.cancel()  # A new page takes the place of one that ends.
                self._giver = self._loop.create_task(self._follow(connection))

    async def _follow(self, connection: socket.socket) -> None:
        """Hand over what is held, hold what is given, and wait for the end of the page's process."""
        with connection:
            try:
                socket.send_fds(connection, [_HELLO], [one.fileno() for one in self._held])
                async with asyncio.timeout(GIVE_SECONDS):
                    given = await self._given(connection)
                self._stay()
                self._hold(given)
                while await self._loop.sock_recv(connection, 1):
                    pass
            except (OSError, TimeoutError):
                pass
        self._stay()
        self._release = self._loop.call_later(AWAY_SECONDS, self._hold, ())

    def _stay(self) -> None:
        """Give nothing up for now."""
        if self._release:
            self._release.cancel()

    async def _given(self, connection: socket.socket) -> Sequence[socket.socket]:
        readable = asyncio.Event()
        self._loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(connection)
        return _received(connection)

    def _hold(self, given: Sequence[socket.socket]) -> None:
        """Hold these in place of those from before."""
        before, old = self._held, self.places
        self._held = tuple(given)
        for one in before:
            one.close()
        if not old <= self.places:
            self._on_end()


def place(listener: socket.socket) -> Place:
    """Return where a socket listens."""
    address, port = listener.getsockname()[:2]
    return str(ip_address(address)), port


def left(path: Path) -> list[socket.socket]:
    """Return the sockets that meshsecd holds; none when it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(START_SECONDS)
            connection.connect(str(path))
            return _received(connection)
    except OSError:
        return []


async def give(path: Path, listeners: Sequence[socket.socket]) -> None:
    """Let meshsecd hold these sockets, also after it was restarted, until cancelled."""
    while True:
        with contextlib.suppress(OSError):
            await _give(path, listeners)
        await asyncio.sleep(RETRY_SECONDS)


async def _give(path: Path, listeners: Sequence[socket.socket]) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, str(path))
        await loop.sock_recv(connection, len(_HELLO))  # The kernel closes what comes along.
        socket.send_fds(connection, [_HELLO], [one.fileno() for one in listeners])
        await loop.sock_recv(connection, 1)


def _received(connection: socket.socket) -> list[socket.socket]:
    """Return the sockets that come in one packet. Raises OSError when something else comes."""
    content, numbers, _, _ = socket.recv_fds(connection, len(_HELLO), MOST, socket.MSG_CMSG_CLOEXEC)
    found = [socket.socket(fileno=number) for number in numbers]
    if content == _HELLO and all(map(_listens, found)):
        return found
    _close(found)
    raise OSError("something else than listening sockets came")


def _listens(one: socket.socket) -> bool:
    is_tcp = one.family in {socket.AF_INET, socket.AF_INET6} and one.type == socket.SOCK_STREAM
    return is_tcp and bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _close(sockets: Iterable[socket.socket]) -> None:
    for one in sockets:
        one.close()

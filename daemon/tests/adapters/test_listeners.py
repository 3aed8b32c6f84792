"""meshsecd holds the page's ports: while a page restarts, and no longer than a login is worth something."""

import asyncio
import errno
import grp
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meshsec.adapters.sockets import listeners
from meshsec.adapters.sockets.listeners import Keeper, Place


def listening(port: int = 0) -> socket.socket:
    """Listen as the page does. Raises OSError when somebody else has the port."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen()
    except OSError:
        found.close()
        raise
    return found


class Held:
    """A keeper, and how often it said that a place was given up."""

    def __init__(self, path: Path) -> None:
        self.path, self.ends = path, 0
        self.keeper = Keeper(path, self._ended)

    def _ended(self) -> None:
        self.ends += 1

    async def until(self, places: set[Place]) -> None:
        async with asyncio.timeout(10):
            while self.keeper.places != places:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def page(self, *given: socket.socket) -> AsyncIterator[None]:
        """Run the page's part until the block is left; it closes what it gave, as a process that ends does."""
        giving = asyncio.create_task(listeners.give(self.path, given))
        try:
            await self.until({listeners.place(one) for one in given})
            yield
        finally:
            giving.cancel()
            with suppress(asyncio.CancelledError):
                await giving
            for one in given:
                one.close()


def run(tmp_path: Path, scenario: Callable[[Held], Coroutine[Any, Any, None]]) -> None:
    async def running() -> None:
        held = Held(tmp_path / "page.sock")
        held.keeper.start()
        try:
            await scenario(held)
        finally:
            held.keeper.close()
            await asyncio.sleep(0.01)

    asyncio.run(running())


def test_a_page_that_comes_back_gets_its_sockets_and_nobody_else_the_port(tmp_path: Path) -> None:
    async def scenario(held: Held) -> None:
        first = listening()
        place = listeners.place(first)
        async with held.page(first):
            pass
        with pytest.raises(OSError, match="in use"):
            listening(place[1])
        waiting = socket.create_connection(place)  # It is answered by the next page.
        (again,) = await asyncio.to_thread(listeners.left, held.path)
        async with held.page(again):
            again.settimeout(10)
            again.accept()[0].close()
            assert held.ends == 0
        waiting.close()

    run(tmp_path, scenario)


def test_a_page_that_stays_away_gives_the_port_up_and_the_logins_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "AWAY_SECONDS", 0.2)

    async def scenario(held: Held) -> None:
        first = listening()
        place = listeners.place(first)
        async with held.page(first):
            await asyncio.sleep(0.4)
            assert held.keeper.places == {place}, "it is there"
        await held.until(set())
        assert held.ends == 1
        listening(place[1]).close()

    run(tmp_path, scenario)


def test_a_page_that_has_come_back_is_not_given_up_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "AWAY_SECONDS", 0.3)

    async def scenario(held: Held) -> None:
        async with held.page(first := listening()):
            place = listeners.place(first)
        for _ in range(2):
            again = await asyncio.to_thread(listeners.left, held.path)
            for one in again:
                one.close()
        (again_here,) = await asyncio.to_thread(listeners.left, held.path)
        async with held.page(again_here):
            await asyncio.sleep(0.6)
            assert held.keeper.places == {place}
            assert held.ends == 0

    run(tmp_path, scenario)


def test_a_page_that_goes_to_another_port_ends_the_logins_at_once(tmp_path: Path) -> None:
    async def scenario(held: Held) -> None:
        async with held.page(listening()):
            pass
        async with held.page(listening(), listening()):
            assert held.ends == 1
        async with held.page(*await asyncio.to_thread(listeners.left, held.path), listening()):
            assert held.ends == 1, "one more place is none given up"

    run(tmp_path, scenario)


def test_it_is_given_again_to_a_meshsecd_that_was_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "RETRY_SECONDS", 0.05)

    async def scenario(held: Held) -> None:
        async with held.page(first := listening()):
            held.keeper.close()
            assert held.keeper.places == frozenset()
            held.keeper = Keeper(held.path, lambda: None)
            held.keeper.start()
            await held.until({listeners.place(first)})

    run(tmp_path, scenario)


def test_what_does_not_listen_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "GIVE_SECONDS", 0.2)

    async def scenario(held: Held) -> None:
        unbound, datagrams, pair = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socketpair()
        good, local = listening(), socket.socket(socket.AF_UNIX)
        local.bind(str(held.path.with_name("other.sock")))
        local.listen()
        for given in ([good, unbound], [datagrams], [pair[0]], [local], []):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.connect(str(held.path))
                if given:
                    socket.send_fds(connection, [b"listeners"], [one.fileno() for one in given])
                connection.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(connection, 64) == b"listeners"
                async with asyncio.timeout(10):
                    assert await asyncio.get_running_loop().sock_recv(connection, 1) == b"", "it is let go"
            assert held.keeper.places == frozenset()
        for one in (unbound, datagrams, *pair, good, local):
            one.close()

    run(tmp_path, scenario)


def test_only_the_pages_own_group_gets_the_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accounts that may look are in another group, and would catch a login by accepting beside the page."""
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid={"meshsec-page-port": 4711}[name]))
    monkeypatch.setattr(os, "chown", lambda path, _user, group: given.append((path.name, group)))

    async def scenario(held: Held) -> None:
        assert stat.S_IMODE(held.path.stat().st_mode) == 0o660
        await asyncio.sleep(0)

    run(tmp_path, scenario)
    assert given == [("page.sock", 4711)]


def test_it_goes_on_once_it_can_accept_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listeners, "RETRY_SECONDS", 0.05)

    async def scenario(held: Held) -> None:
        loop = asyncio.get_running_loop()
        accept, failures = loop.sock_accept, [OSError(errno.EMFILE, "Too many open files")] * 2

        async def failing(listener: socket.socket) -> Any:
            if failures:
                raise failures.pop()
            return await accept(listener)

        await asyncio.sleep(0)
        held.keeper.close()
        monkeypatch.setattr(loop, "sock_accept", failing)
        held.keeper = Keeper(held.path, lambda: None)
        with caplog.at_level(logging.WARNING):
            held.keeper.start()
            async with held.page(listening()):
                pass
        assert caplog.text.count("Too many open files") == 2

    run(tmp_path, scenario)


def test_without_meshsecd_there_is_nothing_left(tmp_path: Path) -> None:
    assert listeners.left(tmp_path / "page.sock") == []

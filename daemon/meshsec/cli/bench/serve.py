"""``bench serve``: answer the benchmarks of one peer for a while."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import click

from meshsec.adapters import measuring
from meshsec.adapters.measuring import MeasuringError
from meshsec.adapters.sockets import bench_probes
from meshsec.adapters.sockets.bench_talk import Listener, Talk, TalkError
from meshsec.cli.app import App, peer_names
from meshsec.cli.bench.options import need
from meshsec.cli.bench.planes import await_plane
from meshsec.cli.client import Client, DaemonError
from meshsec.core.bench import iperf3
from meshsec.core.values.bench import CLEAR_PORT, FLOW_PORT, TALK_PORT
from meshsec.core.values.model import DataPlane

_SILENCE = 30.0
"""Seconds for which the peer's command may say nothing between two steps."""
_LONGEST = 700
"""Seconds of one step, at most; `bench throughput` has 600 and some for its beginning and its end."""
_ANSWER = 30.0
"""Seconds that meshsecd may take to change rules."""
_MINUTE = 60.0


class RefusalError(Exception):
    """The peer asks for what is not served here."""


@click.command
@click.argument("peer", shell_complete=peer_names)
@click.option(
    "--minutes",
    type=click.IntRange(1, 1440),
    default=15,
    show_default=True,
    help="When to end, unless the peer's benchmark is complete before.",
)
@click.option(
    "--plain",
    is_flag=True,
    help=f"Let PEER measure the way in the clear, too, through TCP and UDP port {CLEAR_PORT} alone.",
)
@click.pass_obj
def serve(app: App, peer: str, minutes: int, plain: bool) -> None:
    """Answer `meshsec bench throughput` of PEER, and of nobody else.

    It ends when the benchmark is complete, when the time is over, or with Ctrl-C. The data plane with PEER changes
    while it is measured, and is afterwards what it was. With --plain, this node lets PEER's measurement pass in the
    clear while the plain way is measured, if the operator there asks for it, too. `meshsec status` shows it.
    """
    need("iperf3", "iperf3")
    end = time.monotonic() + minutes * _MINUTE
    with Client(app.socket, _ANSWER) as client:
        session = client.call("bench_begin", {"peer": peer, "serves": True})
        try:
            with Listener(session["own"], session["peer"], TALK_PORT) as listener:
                opened = "with --plain: the way in the clear, too" if plain else "nothing in the clear"
                click.echo(f"serving {peer} for {minutes} min at most ({opened}); Ctrl-C ends it", err=True)
                _serve(Service(client, session, peer, end, plain=plain), listener)
        except TalkError as error:
            raise click.ClickException(str(error)) from error


def _serve(service: "Service", listener: Listener) -> None:
    while (left := service.end - time.monotonic()) > 0:
        talk = listener.accept(left)
        if talk is None:
            continue
        with talk:
            try:
                if service.attend(talk):
                    click.echo("the benchmark is complete", err=True)
                    return
            except TalkError as error:
                click.echo(f"the benchmark of {service.peer} broke off ({error}); it may go on", err=True)
            finally:
                service.rest()
    click.echo("the time is over", err=True)


class Service:
    """What the peer may ask for."""

    def __init__(self, client: Client, session: Mapping[str, str], peer: str, end: float, *, plain: bool) -> None:
        """``end``: monotonic time at which nothing is served any more."""
        self.peer, self.end = peer, end
        self._client, self._session, self._plain = client, session, plain
        self._running = ExitStack()
        """The server of iperf3, and beside it the answers to probes."""
        self._ends: tuple[str, str, int] | None = None

    def attend(self, talk: Talk) -> bool:
        """Answer one command until it is complete. Return False if the time is over before. Raises TalkError."""
        wait = _SILENCE
        while (left := self.end - time.monotonic()) > 0:
            asked = talk.hear(min(wait, left))
            if asked.get("do") == "end":
                talk.say({})
                return True
            try:
                talk.say(self._answer(asked))
            except (RefusalError, DaemonError, MeasuringError, OSError) as error:
                talk.say({"error": str(error)})
            wait = _seconds(asked) + _SILENCE
        return False

    def rest(self) -> None:
        """End what runs for the peer, and close what is open. Raises DaemonError."""
        try:
            self._running.close()
        except MeasuringError as error:
            click.echo(str(error), err=True)
        self._client.call("bench_plane", {"session": self._session["session"], "plane": None})

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, object]:
        match asked.get("do"):
            case "hello":
                version = iperf3.version(measuring.run(["iperf3", "--version"], _SILENCE))
                return {"iperf3": version, "plain": self._plain, "left": self.end - time.monotonic()}
            case "plane":
                return self._use(asked)
            case "probes":
                return self._answer_probes()
            case "flow":
                return self._await_flow()
        raise RefusalError(f"{asked.get('do')!r} is nothing that can be asked for")

    def _use(self, asked: Mapping[str, Any]) -> Mapping[str, object]:
        """Change to a plane."""
        plane = asked.get("plane")
        if not isinstance(plane, str) or plane not in {"ipsec", "overlay", "plain"}:
            raise RefusalError(f"{plane!r} is no data plane")
        if plane == "plain" and not self._plain:
            raise RefusalError("`meshsec bench serve` runs there without --plain")
        self._running.close()
        seconds = min(_seconds(asked), max(1, int(self.end - time.monotonic())))
        asked_for = {"session": self._session["session"], "plane": plane, "seconds": seconds}
        self._client.call("bench_plane", asked_for)
        if plane != "plain":
            await_plane(self._client, self.peer, DataPlane(plane))
        names = ("own_clear", "peer_clear") if plane == "plain" else ("own", "peer")
        own, peer = (self._session[name] for name in names)
        self._ends = own, peer, CLEAR_PORT if plane == "plain" else FLOW_PORT
        return {"seconds": seconds}

    def _answer_probes(self) -> Mapping[str, object]:
        own, peer, port = self._present()
        self._running.close()
        self._running.enter_context(bench_probes.answering(own, peer, port))
        self._running.enter_context(measuring.beside(_server(own, port)))
        return {}

    def _await_flow(self) -> Mapping[str, object]:
        own, _, port = self._present()
        self._running.close()
        self._running.enter_context(measuring.beside(_server(own, port)))
        return {}

    def _present(self) -> tuple[str, str, int]:
        if self._ends is None:
            raise RefusalError("no data plane was asked for yet")
        return self._ends


def _server(own: str, port: int) -> list[str]:
    return ["iperf3", "--server", "--json", "--bind", own, "--port", str(port)]


def _seconds(asked: Mapping[str, Any]) -> int:
    """Return how long a step lasts, as far as that is allowed."""
    value = asked.get("seconds", 0)
    return min(max(1, value), _LONGEST) if isinstance(value, int) and not isinstance(value, bool) else 1

"""The flows of ``bench throughput``: this node's end of them, and the talk with the node that serves."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from meshsec.adapters import measuring, processors
from meshsec.adapters.measuring import MeasuringError
from meshsec.adapters.sockets import bench_probes, bench_talk
from meshsec.adapters.sockets.bench_talk import Talk, TalkError
from meshsec.cli.bench.planes import await_plane
from meshsec.cli.client import Client, DaemonError
from meshsec.core.bench import iperf3, usage
from meshsec.core.bench.record import Key, Record, Taken
from meshsec.core.values.bench import CLEAR_PORT, FLOW_PORT, TALK_PORT
from meshsec.core.values.model import DataPlane

OCTETS = 1200
"""Bytes of a datagram: it passes whole in each plane over links of 1500."""
MARGIN = 20
"""Seconds beyond a step for which the port in the clear may stay open, if nobody closes it before."""
_TALK = 60.0
"""Seconds for an answer of the peer, which may wait for its own data plane."""
_AGAIN = 5.0
"""Seconds in which iperf3's server at the peer must have begun to listen."""
_CONNECT_MS = 3000


class PlaneAbsentError(Exception):
    """A data plane cannot be had; the text says why."""


@dataclass
class Flows:
    """The planes with one peer. What could not be had once is not tried again."""

    client: Client
    talk: Talk
    session: Mapping[str, str]
    peer: str
    record: Record
    _absent: dict[DataPlane, str] = field(default_factory=dict)

    def rest(self, plane: DataPlane, seconds: int) -> Iterator[Taken]:
        """Measure round trips while nothing else is sent."""
        if not self._use(plane, seconds, "probes"):
            return
        own, peer, port = self._ends(plane)
        with _probing(own, peer, port) as trips:
            time.sleep(seconds)
        yield from _trips({"plane": plane, "beside": "nothing"}, trips)

    def stream(self, plane: DataPlane, seconds: int, *, reverse: bool) -> Iterator[Taken]:
        """Measure a TCP stream, round trips beside it, and what the processors of this node do meanwhile."""
        if not self._use(plane, seconds, "probes"):
            return
        own, peer, port = self._ends(plane)
        key: Key = {"plane": plane, "direction": self._direction(reverse=reverse)}
        before = processors.look()
        with _probing(own, peer, port) as trips:
            report = _measured(own, peer, port, seconds, ["--reverse"] if reverse else [])
        after = processors.look()
        yield from _read(lambda: iperf3.stream(report, key, reverse=reverse))
        yield from _trips({"plane": plane, "beside": f"TCP {key['direction']}"}, trips)
        yield from usage.between(before, after, {**key, "flow": "TCP"}, processors.HERTZ)

    def load(self, plane: DataPlane, seconds: int, mbit: float, *, reverse: bool) -> Iterator[Taken]:
        """Measure what arrives of a fixed load of UDP."""
        if not self._use(plane, seconds, "flow"):
            return
        own, peer, port = self._ends(plane)
        options = ["--udp", "--bitrate", f"{mbit:g}M", "--length", str(OCTETS), *(["--reverse"] if reverse else [])]
        # The rules let UDP pass in the clear between two fixed ports (ADR 0084).
        report = _measured(own, peer, port, seconds, [*options, "--cport", str(port)])
        key: Key = {"plane": plane, "direction": self._direction(reverse=reverse), "offered": mbit}
        yield from _read(lambda: iperf3.datagrams(report, key))

    def end(self) -> None:
        """Say that the benchmark is complete. The peer may be gone already."""
        try:
            self.ask({"do": "end"})
        except TalkError:
            return

    def ask(self, message: Mapping[str, object]) -> Mapping[str, Any]:
        """Return the peer's answer. Raises TalkError, and PlaneAbsentError for a refusal."""
        self.talk.say(message)
        answer = self.talk.hear(_TALK)
        if "error" in answer:
            raise PlaneAbsentError(f"{self.peer}: {_printable(answer['error'])}")
        return answer

    def _use(self, plane: DataPlane, seconds: int, what: str) -> bool:
        """Change to a plane at both ends. Return False, and note why, if it cannot be had. Raises ClickException."""
        if plane in self._absent:
            return False
        try:
            self._change(plane, seconds)
            self.ask({"do": what, "seconds": seconds + MARGIN})
        except (PlaneAbsentError, DaemonError) as error:
            self._give_up(plane, str(error))
            return False
        except TalkError as error:
            raise click.ClickException(f"{self.peer} does not serve any more: {error}") from error
        return True

    def _give_up(self, plane: DataPlane, why: str) -> None:
        """Close what was begun for a plane, and go on without it. Raises ClickException if meshsecd is gone."""
        try:
            self.client.call("bench_plane", {"session": self.session["session"], "plane": None})
        except DaemonError as error:
            raise click.ClickException(f"{why}; {error}") from error
        self._absent[plane] = why
        self.record.note(f"{plane} was not measured: {why}")

    def _change(self, plane: DataPlane, seconds: int) -> None:
        lasting = seconds + MARGIN
        asked = {"session": self.session["session"], "plane": str(plane), "seconds": lasting}
        self.client.call("bench_plane", asked)
        self.ask({"do": "plane", "plane": str(plane), "seconds": lasting})
        if plane is not DataPlane.PLAIN:
            await_plane(self.client, self.peer, plane)

    def _ends(self, plane: DataPlane) -> tuple[str, str, int]:
        if plane is DataPlane.PLAIN:
            return self.session["own_clear"], self.session["peer_clear"], CLEAR_PORT
        return self.session["own"], self.session["peer"], FLOW_PORT

    def _direction(self, *, reverse: bool) -> str:
        return f"from {self.peer}" if reverse else f"to {self.peer}"


def connect(session: Mapping[str, str], peer: str, own_name: str) -> Talk:
    """Return a connection to the peer's `meshsec bench serve`. Raises ClickException."""
    try:
        return bench_talk.connect(session["own"], session["peer"], TALK_PORT)
    except TalkError as error:
        raise click.ClickException(
            f"{peer} does not serve: {error}; run this there, and try again: meshsec bench serve {own_name}"
        ) from error


@contextmanager
def _probing(own: str, peer: str, port: int) -> Iterator[bench_probes.Trips]:
    """Send probes meanwhile, with the same port at both ends, as the rules want it. Raises ClickException."""
    try:
        with bench_probes.probing((own, port), (peer, port)) as trips:
            yield trips
    except OSError as error:
        raise click.ClickException(f"probes from UDP port {port} of {own} to {peer}: {error.strerror}") from error


def _measured(own: str, peer: str, port: int, seconds: int, options: list[str]) -> Any:
    """Return iperf3's report. Raises ClickException."""
    argv = ["iperf3", "--client", peer, "--bind", own, "--port", str(port), "--time", str(seconds), "--json"]
    argv += ["--get-server-output", "--connect-timeout", str(_CONNECT_MS), *options]
    end = time.monotonic() + _AGAIN
    while True:
        try:
            report = json.loads(measuring.run(argv, seconds + MARGIN, allowed=(0, 1)))
        except (MeasuringError, ValueError) as error:
            raise click.ClickException(f"iperf3: {error}") from error
        refusal = iperf3.refusal(report)
        if not refusal:
            return report
        if "unable to connect" not in refusal or time.monotonic() > end:
            raise click.ClickException(f"iperf3 to {peer}: {refusal}")
        time.sleep(0.1)


def _read(work: Callable[[], list[Taken]]) -> list[Taken]:
    try:
        return work()
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _trips(key: Key, trips: bench_probes.Trips) -> Iterator[Taken]:
    if trips.milliseconds:
        yield Taken(key, "ms", list(trips.milliseconds.values()))
    yield Taken(key, "% of probes lost", [trips.lost])


def _printable(value: object) -> str:
    """Return what a peer said, without what a terminal would take for commands."""
    return "".join(one if one.isprintable() else "?" for one in str(value)[:300])

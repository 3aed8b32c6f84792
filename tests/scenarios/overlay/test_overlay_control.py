"""Through overlayd's control socket its user decides with whom the node talks and what is kept without traffic."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Overlayd, Secret
from tests.lab.node import capabilities
from tests.lab.observe.overlay_control import OverlayControl

pytestmark = [
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]

SECRET = Secret("open sesame", "ali baba")
NOBODY = 65534
_ASK = """
import os, socket, sys
os.setgroups([])
os.setresgid(*[int(sys.argv[1])] * 3)
os.setresuid(*[int(sys.argv[1])] * 3)
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[2])
    connection.sendall(sys.argv[3].encode() + b"\\n")
    lines = connection.makefile()
    print([line for line in (next(lines) for _ in range(3))][2])
"""
"""Run as another user. It prints the third line, which follows hello and status and answers what was sent."""


class Controlled(Overlayd):
    """A node whose permissions come through its control socket; the group of nobody may read there."""

    def _text(self) -> str:
        text = super()._text().replace('permit = "anybody"', 'permit = "control"')
        return text.replace("[control]\n", f'[control]\ngroup = "{NOBODY}"\n')


@contextmanager
def pair() -> Iterator[tuple[Overlayd, Controlled]]:
    """Start a node that talks with all, and a neighbour that is controlled through its socket."""
    with cjdns.line([Overlayd, Controlled]) as found:
        a, controlled = found
        assert isinstance(a, Overlayd)
        assert isinstance(controlled, Controlled)
        cjdns.connect(1, controlled, a, SECRET, 1)
        cjdns.start([a, controlled])
        yield a, controlled


def _echoes(source: Overlayd, target: Overlayd) -> bool:
    """Return whether at least one of a few echoes comes back."""
    return (
        source.run("ping", "-n", "-q", "-c", "3", "-i", "0.2", "-w", "4", target.address, check=False).returncode == 0
    )


def test_whom_the_control_socket_names_is_permitted_until_it_names_others() -> None:
    with pair() as (a, controlled), OverlayControl(controlled.socket) as control:
        assert control.status["permit"] == {"by": "control", "addresses": 0}
        controlled.wait_neighbour(a)
        assert not _echoes(a, controlled), "nobody is permitted yet"
        assert control.command("permit", a.address) == {"type": "done", "command": "permit", "count": 1}
        controlled.wait_ping(a)
        controlled.daemon.send_signal(signal.SIGHUP)
        controlled.wait_ping(a)
        assert control.ask()["permit"] == {"by": "control", "addresses": 1}, "reading the file again changes nothing"
        control.command("permit", "fc00::1")
        assert not _echoes(a, controlled), "somebody else is permitted"


def test_ten_thousand_are_permitted_in_portions_that_count_when_the_last_is_there() -> None:
    others = [f"fc00::{number:x}" for number in range(9999)]
    with pair() as (a, controlled), OverlayControl(controlled.socket) as control:
        controlled.wait_neighbour(a)
        for number, start in enumerate(range(0, len(others), 1000)):
            line = {"type": "permit", "addresses": others[start : start + 1000], "portion": number, "more": True}
            assert control.say(json.dumps(line))["type"] == "done"
        assert control.ask()["permit"] == {"by": "control", "addresses": 0}
        last = {"type": "permit", "addresses": [a.address], "portion": 10}
        assert control.say(json.dumps(last)) == {"type": "done", "command": "permit", "count": 10_000}
        assert control.ask()["permit"] == {"by": "control", "addresses": 10_000}
        controlled.wait_ping(a)
        assert "follows nothing" in control.say(json.dumps(last))["reason"]


def test_who_is_kept_is_reached_without_a_packet_and_comes_back_by_itself() -> None:
    with pair() as (a, controlled), OverlayControl(controlled.socket) as control:
        assert control.command("keep", a.address)["type"] == "done"
        controlled.wait_neighbour(a)
        assert control.ask()["kept"] == [{"address": a.address, "up": False}], "it is not permitted"
        control.command("permit", a.address)
        control.wait_kept(a.address, up=True)
        assert control.wait_event("kept-up")["address"] == a.address
        assert not control.status["sent"], "no packet of this machine"
        a.daemon.kill()
        control.wait_kept(a.address, up=False)
        assert control.wait_event("kept-down")["address"] == a.address
        a.start()
        control.wait_kept(a.address, up=True)


def test_what_is_wrong_is_refused_with_its_reason_and_changes_nothing() -> None:
    with pair() as (a, controlled), OverlayControl(controlled.socket) as control:
        control.command("permit", a.address)
        for line, reason in (
            ("nonsense", "allowed: status"),
            (json.dumps({"type": "permit", "addresses": ["fc00::1", "fd00::1"]}), 'addresses[1] = "fd00::1"; allowed'),
            (json.dumps({"type": "permit", "addresses": ["fc00::1"] * 1025}), "1025 addresses in a line; allowed"),
        ):
            answer = control.say(line)
            assert (answer["type"], answer["command"]) == ("refused", None)
            assert reason in answer["reason"]
        assert control.ask()["permit"] == {"by": "control", "addresses": 1}
        many = [f"fc00::{number:x}" for number in range(1024)]
        assert control.command("permit", *many)["count"] == 1024
        assert control.say("x" * 200_000)["type"] == "refused", "more than a line may have"
        assert control.ask()["permit"] == {"by": "control", "addresses": 1024}


def test_a_reader_reads_and_commands_nothing() -> None:
    with pair() as (a, controlled):
        for line, answer in (
            ("status", {"type": "status"}),
            (
                json.dumps({"type": "permit", "addresses": [a.address]}),
                {
                    "type": "refused",
                    "command": "permit",
                    "reason": f"user {NOBODY} may read only; allowed: root and the user of this process",
                },
            ),
        ):
            assert answer.items() <= _as_nobody(controlled, line).items()
        with OverlayControl(controlled.socket) as control:
            assert control.status["permit"] == {"by": "control", "addresses": 0}


def _as_nobody(controlled: Controlled, line: str) -> dict[str, object]:
    argv = [sys.executable, "-c", _ASK, str(NOBODY), str(controlled.socket), line]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_where_the_file_says_who_is_permitted_the_socket_does_not() -> None:
    with cjdns.line([Overlayd, Overlayd]) as found:
        cjdns.start(found[:1])
        with OverlayControl(found[0].socket) as control:
            assert control.status["permit"] == "anybody"
            answer = control.command("permit")
            assert answer["type"] == "refused"
            assert 'allowed with permit = "control"' in answer["reason"]
            assert control.ask()["permit"] == "anybody"

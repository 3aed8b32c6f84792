"""``make fleet-more``: docs/guide/first-hour.md leads from ten bare machines to what it promises, in under an hour.

Every command is typed as it is printed, at one machine after the other, as one person does. Cables take the place of
the mesh's radios and of the access point's: test_up_radio.py and tests/guest have those. build/first-hour.json says how
long each line took, and how long a person types.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from tests.fleet import quick_start
from tests.fleet.guide import Walk
from tests.fleet.longer import longer
from tests.fleet.test_guides import arrive, outside_of
from tests.lab.basics.places import BUILD
from tests.lab.basics.waiting import wait_until
from tests.lab.gateways import OUTSIDE4
from tests.lab.machines.fleet import Fleet, uri
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.observe.browser import Browser
from tests.lab.roaming import Station
from tests.scenarios.expectations import assert_nothing_clear, captured

GUIDE = "first-hour.md"
NAMES = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet")
MOST_COMMANDS = 20
HOUR = 3600.0
CHARACTERS_PER_MINUTE = 150
"""A slow typist, who also types what others paste."""
COMPARING_SECONDS = 20
"""To note a node's six words, and to compare them."""
PATIENCE = 300.0
"""Seconds for what a command shows: ten machines share two processors, and a request to join is repeated each 30 s."""
WRONG = "smart tiger giggle daughter soul brother"
"""Six words of the list, which are no node's."""
PAGE = "http://10.130.0.1:8269/"

pytestmark = [
    longer,
    pytest.mark.timeout(3600),
]


def test_one_person_and_one_page_make_a_mesh_of_ten_bare_machines_in_an_hour(tmp_path: Path) -> None:
    quick_start.skip_without_fleet()
    with Fleet(len(NAMES)) as fleet, ExitStack() as stack:
        outside = outside_of(fleet, "a")
        phone = Station.create(fleet.lab, 1, "e")
        _put_source_into_repositories(fleet)
        walk = _walk(fleet, lambda command: stack.enter_context(_tunnel(fleet, command)))
        before: dict[str, Callable[[], None]] = {
            "alpha# meshsec fleet approve WORDS OF NAME": lambda: _all_ask(walk),
            "all# ping": lambda: _all_protect_each_other(walk),
            "echo# meshsec clients": partial(arrive, phone, fleet, "e", tmp_path),
        }
        walk.walk(GUIDE, (), before)
        _report(walk)

        for name in NAMES:
            known = walk.say(name, "getent hosts " + " ".join(f"{one}.mesh" for one in NAMES))
            assert len(known.splitlines()) == len(NAMES), known
        _assert_phone_gets_out(fleet, phone, outside)
        _assert_phone_sees_page(phone)
        _assert_page_opens(fleet, walk.shown["meshsec page login"].split()[0])


def _walk(fleet: Fleet, at_home: Callable[[str], object]) -> Walk:
    names = dict(zip(NAMES, fleet.nodes, strict=True))
    replaced = {name: _put_in(fleet, node) for name, node in names.items()}
    replaced["alpha"]["eth0"] = "eth1"
    replaced["echo"] |= {
        'radio = { interface = "wlan1", ssid = "valley", frequency = 5180, country = "DE" }': 'ports = ["ap1"]',
        "install -D": "echo 'the phones of the valley' | install -D",
    }

    def own_computer(command: str) -> None:
        at_home(command)

    return Walk(fleet, names, replaced, patience=PATIENCE, at_home=own_computer)


def _put_in(fleet: Fleet, node: str) -> dict[str, str]:
    """Return what differs at a machine: its interfaces are cables, and the repository has this address."""
    machine = fleet.nodes[node]
    cables = " ".join(f"--interface {one}" for one in machine.node.interfaces)
    return {
        "https://HOST/": uri("meshsec", machine.suite),
        "--interface wlan0 --mesh-id valley --frequency 2412 --security open": cables,
    }


def _put_source_into_repositories(fleet: Fleet) -> None:
    """Do what docs/guide/packages.md says of ``meshsec.sources``."""
    key = "".join(f" {line or '.'}\n" for line in fleet.keys.repository.decode().splitlines())
    for suite in {machine.suite for machine in fleet.nodes.values()}:
        text = f"Types: deb\nURIs: {uri('meshsec', suite)}\nSuites: ./\nSigned-By:\n{key}"
        (fleet.directory / "archive/meshsec" / suite / "meshsec.sources").write_text(text, encoding="ascii")


def _all_ask(walk: Walk) -> None:
    """Look until all other nodes ask. None is a peer before it is approved, and no node's words approve none."""

    def asking() -> list[str]:
        return [one["name"] for one in json.loads(walk.say("alpha", "meshsec fleet requests --json"))["requests"]]

    wait_until("all nodes ask", lambda: set(asking()) == {*NAMES[1:]}, [], PATIENCE, last=asking)
    alpha = walk.names["alpha"]
    assert "no node with these 6 words" in walk.fleet.ssh(alpha, f"meshsec fleet approve {WRONG}", check=False).stderr
    assert walk.fleet.ssh(alpha, "getent hosts juliet.mesh", check=False).returncode != 0


def _all_protect_each_other(walk: Walk) -> None:
    def missing() -> dict[str, int]:
        states = {name: json.loads(walk.say(name, "meshsec status --json"))["peers"] for name in NAMES}
        counts = {name: sum(one["state"] == "protected" for one in peers) for name, peers in states.items()}
        return {name: count for name, count in counts.items() if count < len(NAMES) - 1}

    wait_until("all nodes protect each other", lambda: not missing(), [], PATIENCE, last=missing)


@contextmanager
def _tunnel(fleet: Fleet, command: str) -> Iterator[None]:
    """Run ``ssh -L`` of the guide where the controller is, until the block ends."""
    program, *words = shlex.split(command.replace("ALPHA", fleet.nodes["a"].address))
    keys = ["-N", "-i", str(fleet.keys.client), "-o", "BatchMode=yes", *fleet.keys.options()]
    with subprocess.Popen([*fleet.controller, program, *keys, *words]) as running:
        try:
            yield
        finally:
            running.terminate()


def _assert_phone_gets_out(fleet: Fleet, phone: Station, outside: str) -> None:
    """What it sends crosses the mesh inside of SAs."""
    source = phone.namespace, phone.addresses(4)[0]
    with captured(fleet.lab, "phone") as captures, Flow(source, (outside, OUTSIDE4), 0.02, 7020) as flow:
        wait_arrivals(flow, 20)
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.ESP] > 0


def _assert_phone_sees_page(phone: Station) -> None:
    with Browser(phone.namespace) as browser:
        browser.open(PAGE)
        browser.wait("return document.querySelector('h1')?.innerText === 'echo'", seconds=PATIENCE)


def _assert_page_opens(fleet: Fleet, address: str) -> None:
    """In a real browser, through ssh, with the login, which shows all nodes."""
    with Browser(fleet.namespace) as browser:
        browser.open(address)
        browser.wait("return document.querySelector('h1')?.innerText === 'alpha'", seconds=PATIENCE)
        wanted = f"return document.querySelectorAll('#peers tbody tr').length === {len(NAMES) - 1}"
        browser.wait(wanted, seconds=PATIENCE)
        browser.wait("return document.querySelector('#change textarea') !== null", seconds=PATIENCE)
        browser.picture(BUILD / "first-hour-page.png")


def _report(walk: Walk) -> None:
    """Write how long it took, and check what the guide promises."""
    different = {_shape(one.command) for one in walk.typed}
    characters = sum(one.characters for one in walk.typed)
    machines = sum(one.seconds for one in walk.typed)
    typing = characters * 60 / CHARACTERS_PER_MINUTE
    comparing = COMPARING_SECONDS * len(NAMES)
    report = {
        "nodes": len(NAMES),
        "different_commands": len(different),
        "lines_typed": len(walk.typed),
        "characters_typed": characters,
        "seconds": {
            "machines": round(machines, 1),
            f"typing at {CHARACTERS_PER_MINUTE} characters a minute": round(typing),
            f"comparing words, {COMPARING_SECONDS} s a node": comparing,
            "all": round(machines + typing + comparing),
        },
        "commands": sorted(different),
        "lines": [
            {"at": one.node, "command": one.command, "characters": one.characters, "seconds": round(one.seconds, 1)}
            for one in walk.typed
        ],
    }
    (BUILD / "first-hour.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report["seconds"]))
    assert len(different) <= MOST_COMMANDS, sorted(different)
    assert machines + typing + comparing < HOUR


def _shape(command: str) -> str:
    """Return a command without what differs from node to node."""
    named = re.compile("|".join(chain.from_iterable((name, name.upper()) for name in NAMES)))
    return named.sub("NAME", command)

"""The page of a node without a mesh, whose meshsecd answers from a record, in a real browser."""

import os
from collections.abc import Iterator

import pytest

from tests.lab.lab import Lab
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.browser import Browser
from tests.scenarios.page.browsing import PICTURES, text
from tests.scenarios.page.recorded import Answers, answering, answers, large

LARGE = 1000
SECONDS = 2.0
BYTES = 300_000
TRIES = 5
"""Number of tries, of which the fastest counts: a busy machine may stall a browser during one of them."""


@pytest.fixture(scope="module")
def alone() -> Iterator[Node]:
    """Return a node with its page, and no other daemon."""
    with Lab("page-alone", [("a", "b")]) as lab:
        lab.set_up({"a": Options(page={})})
        yield lab["a"]


def opened(node: Node, browser: Browser) -> None:
    node.daemons.page.kill()
    node.daemons.page.start()
    node.daemons.page.wait_ready()
    browser.open("http://localhost:8269/")


def test_a_thousand_nodes_are_shown_in_two_seconds_and_300_kb(alone: Node) -> None:
    shown = """
        const rows = document.querySelectorAll("#peers tbody tr").length;
        const label = document.querySelector("canvas")?.getAttribute("aria-label") ?? "";
        return rows === arguments[0] && label.startsWith(`${arguments[0] + 1} nodes`) && performance.now();
    """
    with answering(alone.run_directory / "view.sock", large(LARGE)), Browser(alone.namespace) as browser:
        times, sizes = [], []
        for _ in range(TRIES):
            browser.received()
            opened(alone, browser)
            times.append(browser.wait(shown, LARGE) / 1000)
            sizes.append(browser.received())
            if times[-1] <= SECONDS:
                break
        browser.look(width=1100, height=700)
        browser.run("document.querySelector('#mesh').scrollIntoView()")
        if os.environ.get("MESHSEC_PICTURES"):
            browser.wait("return performance.now() > 8000")
        browser.picture(PICTURES / "page-1000.png")
    print(f"{LARGE} nodes: {min(times):.2f} s, {max(sizes)} bytes, {alone.daemons.page.resident_bytes()} resident")
    assert min(times) <= SECONDS, "never in time"
    assert max(sizes) <= BYTES, "the first try has nothing in its cache"


HOSTILE = [
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    "__proto__",
    "constructor",
    "a b",
    "\u202egnp.exe",
]


def test_hostile_names_and_reasons_are_text(alone: Node) -> None:
    with answering(alone.run_directory / "view.sock", hostile()), Browser(alone.namespace) as browser:
        opened(alone, browser)
        browser.wait("return document.querySelectorAll('#peers tbody tr').length === arguments[0]", len(HOSTILE))
        names = browser.run(
            "return [...document.querySelectorAll('#peers tbody button')].map((one) => one.textContent)"
        )
        assert sorted(names) == sorted(HOSTILE)
        for number in range(len(HOSTILE)):
            browser.run("document.querySelectorAll('#peers tbody button')[arguments[0]].click()", number)
            browser.wait("return document.querySelector('.explanation')")
        assert browser.run("return window.ran") is None
        assert browser.run("return document.querySelectorAll('img, #page script').length") == 0
        assert HOSTILE[0] in text(browser, "#node")
        assert browser.run("return document.title") == f"{HOSTILE[0]} \u2013 meshsec"


def hostile() -> Answers:
    made = answers()
    model = made["status"]["peers"][0]
    made["status"]["node"]["name"] = HOSTILE[0]
    made["status"]["problems"] = HOSTILE
    made["status"]["peers"] = [
        {**model, "name": name, "address": f"fc00::{number + 1}", "ipv4": None, "reason": HOSTILE[1]}
        for number, name in enumerate(HOSTILE)
    ]
    for check in made["doctor"]["checks"]:
        check.update(level="fail", found=HOSTILE[0], mend=HOSTILE[1])
    made["clients"] |= {"networks": HOSTILE, "nodes": HOSTILE, "problems": HOSTILE}
    for one in made["services"]["services"]:
        one.update(node=HOSTILE[0], description=HOSTILE[1])
    made["services"]["problem"] = HOSTILE[0]
    made["explain"] = {"sentences": HOSTILE}
    return made


def test_each_view_shows_what_meshsecd_answers(alone: Node) -> None:
    with answering(alone.run_directory / "view.sock", full()), Browser(alone.namespace) as browser:
        opened(alone, browser)
        browser.wait("return document.querySelector('#services tbody tr')")
        for selector, parts in SHOWN.items():
            shown = " ".join(text(browser, selector).split()).replace("\N{EN DASH}", "-")
            assert [part for part in parts if part not in shown] == [], f"{selector}: {shown}"
        address = answers()["status"]["node"]["address"]
        links = browser.run("return [...document.querySelectorAll('#services a')].map((one) => one.href)")
        assert links == [f"http://[{address}]/"], "a shell is nothing that a browser opens"
        assert browser.complaints() == []


SHOWN = {
    "#node": ["overlay daemon: it ended", "the rules are old"],
    "#peers": ["1 of 2 are protected.", "b ✗ failed AUTHENTICATION_FAILED: the peer refused this node's key"],
    "#services": ["wiki a [fced:4247:b778:41c3:a9af:19b2:ca8e:e512]:80/tcp The village's wiki", "shell d", ":22/tcp -"],
    "#networks": [
        "Behind this node: 10.7.0.0/16.",
        "10.8.0.0/16 d b, d -",
        "10.9.0.0/16 nobody - no peer announces it",
        "Link over the internet to d: it does not carry.",
        "no answer from 192.0.2.1",
    ],
    "#gateways": [
        "This node is a gateway by eth0. It offers 0.0.0.0/0.",
        "eth0 has no address",
        "Gateways are not watched: no permission",
        "::/0 d d -",
    ],
    "#clients": [
        "1 of at most 32 are here. Other access nodes in reach: d.",
        "Refused, 3 times: 02:00:00:00:00:03: another address is its own",
        "02:00:00:00:00:01 here 10.130.0.7",
        "02:00:00:00:00:02 d 10.130.0.8",
    ],
}
"""What is read in each section of the page of ``full``."""


def full() -> Answers:
    """Return the answers of a node that has something of everything, and something wrong in everything."""
    made = answers()
    status = made["status"]
    failure = {"meaning": "AUTHENTICATION_FAILED: the peer refused this node's key"}
    status["peers"][0] |= {"state": "failed", "last_failure": failure, "data_plane": None}
    status["overlay"] = {"up": False, "reason": "it ended", "device": "tun0", "default_mode": "ipsec"}
    status["problems"] = ["the rules are old"]
    status["own_networks"] = ["10.7.0.0/16"]
    status["networks"] = [
        network("10.8.0.0/16", "d", ["b", "d"]),
        network("10.9.0.0/16", None, [], "no peer announces it"),
    ]
    status["links"] = [{"peer": "d", "up": False, "problems": ["no answer from 192.0.2.1"]}]
    made["gateway"] |= {
        "gateway": {"uplink": "eth0", "offers": ["0.0.0.0/0"], "problems": ["eth0 has no address"]},
        "unwatched": "no permission",
        "ways_out": [network("::/0", "d", ["d"])],
    }
    made["clients"] |= {
        "networks": ["10.130.0.0/16"],
        "clients": [client(1, "10.130.0.7", None), client(2, "10.130.0.8", "d")],
        "refused": [{"mac": "02:00:00:00:00:03", "reason": "another address is its own", "count": 3}],
        "nodes": ["d"],
    }
    return made


def network(prefix: str, peer: str | None, ready: list[str], problem: str = "") -> Answers:
    return {"network": prefix, "by": "route", "peer": peer, "ready": ready, "announced_by": ready, "problem": problem}


def client(number: int, address: str, node: str | None) -> Answers:
    return {"mac": f"02:00:00:00:00:0{number}", "addresses": [address], "here": node is None, "node": node}

"""What ``meshsec status`` prints for people: its width, the names of neighbours, and what -v adds."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from cli.test_daemon import Daemon, running, validated
from cli.test_process import on_terminal

Meshsec = Callable[..., Result]
WIDTH = 80
LONG = "harbour-master-of-the-old-north"
"""As long as names may almost be."""


class Fleet(Daemon):
    """A server whose peers are copies of the engine's protected one, with the differences that a test names."""

    def __init__(self, *peers: Mapping[str, Any]) -> None:
        super().__init__()
        self.peers = peers
        self.more: Mapping[str, Any] = {}

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        found = await super().answer(method, params)
        return {**found, "peers": [{**found["peers"][0], **one} for one in self.peers], **self.more}


def by(next_hop: str, hops: int, interface: str = "mesh0") -> dict[str, Any]:
    return {"next_hop": next_hop, "hops": hops, "interface": interface}


HILL = {"name": "hill", **by("fe80::a00:27ff:fe4e:66a1", 1), "bytes_in": 999_900_000, "bytes_out": 12}
VALLEY = {"name": "valley", **by("fe80::a00:27ff:fe4e:66a1", 2)}
BEYOND = {"name": "beyond", **by("fe80::a00:27ff:fe4e:66a2", 3)}
FAR = {"name": "far", "state": "no-route", "data_plane": None, "next_hop": None, "hops": None, "interface": None}


@pytest.fixture
def path(meshsec: Meshsec, tmp_path: Path) -> Path:
    """Give the path of the node's control socket."""
    (tmp_path / "a/run").mkdir()
    return tmp_path / "a/run/control.sock"


@pytest.fixture
def fleet(path: Path) -> Iterator[Fleet]:
    made = Fleet(HILL, VALLEY, BEYOND, FAR)
    with running(path, made):
        yield made


def table(result: Result) -> list[list[str]]:
    """Return the rows of the table by words, its header's first."""
    lines = result.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("NAME "))
    return [line.split() for line in lines[start:]]


def test_the_next_hop_is_named_and_a_relay_that_is_no_peer_is_called_a_stranger(meshsec: Meshsec, fleet: Fleet) -> None:
    header, hill, valley, beyond, far, *_ = table(meshsec("status"))
    assert header == ["NAME", "STATE", "HOPS", "VIA", "PLANE", "IN", "OUT"]
    assert hill == ["hill", "protected", "1", "hill", "ipsec", "999.9", "MB", "12", "B"]
    assert valley[:5] == ["valley", "protected", "2", "hill", "ipsec"]
    assert beyond[:4] == ["beyond", "protected", "3", "(stranger)"]
    assert far[:5] == ["far", "no-route", "-", "-", "-"]


def test_the_same_address_on_another_interface_is_another_neighbour(meshsec: Meshsec, fleet: Fleet) -> None:
    fleet.peers = (HILL, {**VALLEY, "interface": "mesh1"})
    assert table(meshsec("status"))[2][3] == "(stranger)"


def test_every_line_fits_80_columns_with_usual_names_and_much_to_say(meshsec: Meshsec, fleet: Fleet) -> None:
    name = "harbour-command"
    quiet = {"for": 3700.0, "answers": False}
    long = "timeout: " + "the peer does not answer and nobody knows why " * 4
    failure = {"reason": long, "meaning": long, "fault": "peer", "ago": 3.0}
    fleet.peers = (
        {**HILL, "name": name, "data_plane": "overlay", "bytes_out": 999_900_000_000},
        {**HILL, "name": "harbour-hosting", "state": "negotiating", "reason": long, "last_failure": failure},
        {**VALLEY, "name": "harbour-mooring", "quiet": quiet},
    )
    network = {
        "network": "2001:db8:1234:5678::/64",
        "peer": name,
        "ready": [name] * 4,
        "by": "tunnel",
        "problem": "",
        "limit": "",
    }
    fleet.more = {
        "problems": [f"/etc/meshsec/peers/{name}.card: {long}"],
        "unprotected_networks": ["2001:db8:1234:5678::/64"] * 5,
        "routing_daemon": {"up": False, "reason": long},
        "networks": [network],
    }
    result = meshsec("status")
    assert max(map(len, result.stdout.splitlines())) <= WIDTH
    assert name in table(result)[1]
    assert " ".join(long.split()) in " ".join(result.stdout.split()), "every word is there"


def test_a_plane_that_is_not_the_chosen_one_is_explained_below_the_table(meshsec: Meshsec, fleet: Fleet) -> None:
    assert "data plane" not in meshsec("status").stdout
    fleet.peers = ({**HILL, "mode": "overlay", "reason": "waiting for the overlay's session: none yet"},)
    shown = " ".join(meshsec("status").stdout.split())
    assert "hill is to use the data plane overlay: waiting for the overlay's session: none yet" in shown


def test_a_network_that_not_everything_here_can_use_is_shown_with_who_can(meshsec: Meshsec, fleet: Fleet) -> None:
    network = {"network": "0.0.0.0/0", "peer": "hill", "ready": ["far"], "by": "tunnel", "problem": "", "limit": ""}
    fleet.more = {"networks": [network, {**network, "network": "10.1.0.0/16", "limit": "for others"}]}
    lines = meshsec("status").stdout.splitlines()
    assert "Network 0.0.0.0/0 through hill (ready: far)" in lines
    assert "Network 10.1.0.0/16 through hill (ready: far), for others" in lines


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_adds_what_no_longer_fits(meshsec: Meshsec, fleet: Fleet, option: str) -> None:
    header, hill, *_ = table(meshsec("status", option))
    added = ["ADDRESS", "NEXT", "HOP", "SA", "AGE", "SET-UP", "READY", "IN"]
    assert header == ["NAME", "STATE", "HOPS", "VIA", "PLANE", "IN", "OUT", *added]
    assert "fe80::a00:27ff:fe4e:66a1%mesh0" in hill
    assert "fe80::a00:27ff:fe4e:66a1" not in meshsec("status").stdout


def test_json_does_not_depend_on_verbose(meshsec: Meshsec, fleet: Fleet) -> None:
    plain, verbose = (validated(meshsec("status", *more, "--json"), "meshsec-status-1") for more in ([], ["-v"]))
    assert plain["peers"] == verbose["peers"]
    assert plain["peers"][0]["next_hop"] == "fe80::a00:27ff:fe4e:66a1", "an address, as ever"


def test_a_long_name_is_whole_off_a_terminal_and_takes_two_lines_on_a_narrow_one(
    meshsec: Meshsec, fleet: Fleet, tmp_path: Path
) -> None:
    fleet.peers = ({**HILL, "name": LONG}, VALLEY)
    assert table(meshsec("status"))[1][0] == LONG
    arguments = ["--config", str(tmp_path / "a/meshsec.toml"), "status"]
    lines = on_terminal(*arguments, NO_COLOR="1", COLUMNS="80").splitlines()
    assert max(map(len, lines)) <= WIDTH
    start = next(number for number, line in enumerate(lines) if line.startswith("NAME "))
    first, second, third, valley, *_ = lines[start + 1 :]
    assert first.split()[:4] == ["harbour-master-", "protected", "1", "harbour-master-"]
    assert [second.split(), third.split()] == [["of-the-old-", "of-the-old-"], ["north", "north"]]
    assert valley.split()[:3] == ["valley", "protected", "2"]
    wide = on_terminal(*arguments, NO_COLOR="1", COLUMNS="140")
    assert wide.count(LONG) == 3, "as name, and twice as a neighbour"


def test_a_terminal_that_is_narrower_still_gets_a_block_for_each_peer(
    meshsec: Meshsec, fleet: Fleet, tmp_path: Path
) -> None:
    lines = on_terminal("--config", str(tmp_path / "a/meshsec.toml"), "status", NO_COLOR="1", COLUMNS="40").splitlines()
    assert ["NAME", "hill"] in [line.split() for line in lines]
    assert ["IN", "999.9", "MB"] in [line.split() for line in lines]


def test_without_peers_the_command_that_adds_one_is_named(meshsec: Meshsec, fleet: Fleet) -> None:
    fleet.peers = ()
    assert "`meshsec peer add NAME CARD`" in meshsec("status").stdout
    assert json.loads(meshsec("status", "--json").stdout)["peers"] == []

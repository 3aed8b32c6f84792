"""Commands that ask meshsecd, through the real control socket with the views of a real engine, and bad servers."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from core.world import Driver, card, ike_sa, route
from meshsec.adapters.sockets.control import ControlError, ControlServer
from meshsec.cli import client, router_file
from meshsec.cli.views import is_degraded
from meshsec.core.channels.events import (
    AnnouncementSet,
    OverlayDown,
    QuietSeen,
    RouterDown,
    RoutesReset,
    SasObserved,
    TunnelObserved,
)
from meshsec.core.channels.one_way_watch import Quiet
from meshsec.core.explain import doctor, network_sentences, scheduling_view, views
from meshsec.core.explain.findings import Check, Level
from meshsec.core.explain.scheduling_view import Known
from meshsec.core.ike import drift
from meshsec.core.ike.drift import Difference, Note, Report, Where
from meshsec.core.networks.networks import DEFAULTS
from meshsec.core.values.model import Edge, Neighbour
from meshsec.core.values.networks import Announcement, TunnelRoute
from meshsec.core.values.topology import Topology

Meshsec = Callable[..., Result]
NETWORK = ip_network("10.1.0.0/16")
SCHEMAS = Path(__file__).parents[3] / "docs/reference/schema"
ADDED: Mapping[str, Mapping[str, Any]] = {"boat": {}, "raft": {"namesakes": ["boat"]}, "member": {"fleet": "rescue"}}
"""The answers to adding or removing these peers; others are refused."""


class Daemon:
    """The real server, whose engine trusts n2 (two hops away, protected) and n3 (out of reach)."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.level = Level.OK
        self.drift = Report()
        self.topology = Topology(neighbours=(Neighbour(route(2).next_hop, symmetric=True, signs=True),))
        self.signed = False
        self.driver = Driver()
        self.driver.engine.known.networks.configure((), {NETWORK: ("n2",)})
        self.driver.ready(2, 3)
        reached = route(2)
        self.driver.tell(RoutesReset({reached.destination: reached}), SasObserved("n2", (ike_sa("n2"),)))
        assert self.driver.state(2) == "protected"

    async def answer(  # noqa: C901, PLR0911  (a case for each method)
        self, method: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.asked.append((method, params))
        engine, now = self.driver.engine, self.driver.now
        match method:
            case "status":
                return views.status(engine, now)
            case "gateway":
                return views.gateway(engine, {"uplink": None, "offers": [], "problems": []}, "")
            case "topology":
                return views.topology(engine, self.topology, signed=self.signed)
            case "plan":
                return views.plan(engine, now)
            case "explain" if "network" in params:
                return network_sentences.explain_network(engine.known, NETWORK, NETWORK)
            case "explain":
                try:
                    return views.explain(engine, now, params["peer"])
                except LookupError as error:
                    raise ControlError("unknown_peer", str(error)) from error
            case "scheduling":
                return scheduling_view.view(Known(), None, now)
            case "doctor":
                return doctor.view(
                    [Check("rules", self.level, "they stand", "" if self.level is Level.OK else "reload")]
                )
            case "drift":
                return drift.view(self.drift, params.get("peer"))
            case "peer_add" if params["name"] not in ADDED:
                raise ControlError("refused", f"{params['name']} is refused here")
            case _:
                return ADDED.get(params.get("name", ""), {})


@pytest.fixture
def path(meshsec: Meshsec, tmp_path: Path) -> Path:
    """Give the path of the node's control socket."""
    (tmp_path / "a/run").mkdir()
    return tmp_path / "a/run/control.sock"


@pytest.fixture
def daemon(path: Path) -> Iterator[Daemon]:
    made = Daemon()
    with running(path, made) as _:
        yield made


@contextmanager
def running(path: Path, daemon: Daemon) -> Iterator[None]:
    """Run the server in an event loop of its own; it publishes one event to each watcher."""
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        server = ControlServer(path, daemon.answer)
        await server.start()
        started.set()
        while not stop.is_set():
            if server.is_watched:
                server.publish({"kind": "channel", "peer": "n2", "state": "held", "reason": "the route went away"})
                break
            await asyncio.sleep(0.01)
        await asyncio.to_thread(stop.wait, 0.2)
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(60)
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def validated(result: Result, schema: str) -> Any:
    view = json.loads(result.stdout)
    jsonschema.validate(view, json.loads((SCHEMAS / f"{schema}.json").read_text()))
    return view


def test_status_is_fine_when_all_in_reach_are_protected(meshsec: Meshsec, daemon: Daemon) -> None:
    result = meshsec("status", "--json")
    assert result.exit_code == 0
    assert [peer["state"] for peer in validated(result, "meshsec-status-1")["peers"]] == ["protected", "no-route"]
    table = meshsec("status").stdout
    assert all(text in table for text in ("n2", "protected", "ipsec", "no-route", "rules: in force"))


def lose_sa(driver: Driver) -> None:
    driver.tell(SasObserved("n2", ()))


def lose_router(driver: Driver) -> None:
    driver.tell(RouterDown("connection refused"))


def lose_overlay(driver: Driver) -> None:
    driver.engine.known.overlay.device = "overlay0"
    driver.tell(OverlayDown("no such file"))


def lose_what_is_sent(driver: Driver) -> None:
    driver.tell(QuietSeen({"n2": Quiet(driver.now - 20, answers=False)}))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lose_sa, "waiting"),
        (lose_what_is_sent, "nothing has come from n2 for 20"),
        (lose_router, "Routing daemon is away: connection refused"),
        (lose_overlay, "Overlay is away: no such file"),
    ],
)
def test_status_names_a_fault_and_exits_with_3(
    fault: Callable[[Driver], None], told: str, meshsec: Meshsec, daemon: Daemon
) -> None:
    fault(daemon.driver)
    result = meshsec("status")
    assert result.exit_code == 3
    assert told in result.stdout
    assert meshsec("status", "--json").exit_code == 3


def test_a_network_that_is_announced_and_not_reached_exits_with_3(meshsec: Meshsec, daemon: Daemon) -> None:
    assert "Network 10.1.0.0/16: nobody" in meshsec("status").stdout
    assert meshsec("status").exit_code == 0, "a network that nobody announces is as a peer out of reach"
    announced = Announcement(NETWORK, card(2).locator, 1, 1)
    daemon.driver.tell(AnnouncementSet(announced))
    assert meshsec("status").exit_code == 3
    assert validated(meshsec("status", "--json"), "meshsec-status-1")["networks"][0]["announced_by"] == ["n2"]
    daemon.driver.tell(TunnelObserved(frozenset({TunnelRoute(NETWORK, card(2).address)})))
    assert meshsec("status").exit_code == 0


def test_a_way_out_says_who_can_use_it(meshsec: Meshsec, daemon: Daemon) -> None:
    known = daemon.driver.engine.known
    known.networks.configure((), dict.fromkeys(DEFAULTS.values(), ("n2",)))
    limit = "0.0.0.0/0 is of no use here: this node has no IPv4 address in the mesh"
    assert "of no use" not in meshsec("gateway", "status").stdout
    known.node = card(1, ipv4=False)
    validated(meshsec("gateway", "status", "--json"), "meshsec-gateway-1")
    shown = meshsec("gateway", "status").stdout
    assert limit in shown
    assert "::/0 is" not in shown


def test_a_gateway_that_leads_nowhere_calls_for_attention(meshsec: Meshsec, daemon: Daemon) -> None:
    view = validated(meshsec("status", "--json"), "meshsec-status-1")
    assert not is_degraded(view)
    assert is_degraded(view | {"gateway": view["gateway"] | {"uplink": "eth0", "problems": ["eth0 has no carrier"]}})


def test_traffic_of_one_direction_is_told_and_is_no_fault(meshsec: Meshsec, daemon: Daemon) -> None:
    daemon.driver.tell(QuietSeen({"n2": Quiet(daemon.driver.now - 20, answers=True)}))
    result = meshsec("status")
    assert result.exit_code == 0
    assert "its IKE daemon answers" in " ".join(result.stdout.split())
    (peer, other) = validated(meshsec("status", "--json"), "meshsec-status-1")["peers"]
    assert (peer["quiet"]["answers"], other["quiet"]) == (True, None)


def test_topology_prints_neighbours_routes_and_links(meshsec: Meshsec, daemon: Daemon) -> None:
    view = validated(meshsec("topology", "--json"), "meshsec-topology-1")
    assert [entry["peer"] for entry in view["routes"]] == ["n2"]
    assert view["names"][str(card(2).address)] == "n2"
    text = meshsec("topology", "--verbose").stdout
    assert all(part in text for part in ("Neighbours", "symmetric", "Routes", "fe80::1", "Links"))
    lines = [line.split() for line in meshsec("topology").stdout.splitlines()]
    assert ["TO", "IP", "HOPS", "VIA", "METRIC"] in lines
    assert ["n2", "6", "2", "(stranger)"] in [line[:4] for line in lines]
    assert ["fe80::1", "symmetric"] in [line[:2] for line in lines], "a neighbour without a card here"
    assert "SIGNS" not in text
    assert "CONFIRMED" not in text


def test_topology_says_what_is_signed_where_signatures_are_looked_at(meshsec: Meshsec, daemon: Daemon) -> None:
    known, own, far = daemon.topology.neighbours[0].originator, card(1).address, card(3).address
    edges = (Edge(known, far, 1, confirmed=True), Edge(far, own, 1))
    daemon.topology, daemon.signed = replace(daemon.topology, edges=edges), True
    view = validated(meshsec("topology", "--json"), "meshsec-topology-1")
    assert [one["confirmed"] for one in view["edges"]] == [True, False]
    lines = [line.split() for line in meshsec("topology").stdout.splitlines()]
    assert [line[-1] for line in lines if line[:2] == ["fe80::1", "symmetric"]] == ["yes"]
    assert ["FROM", "TO", "METRIC", "CONFIRMED"] in lines
    assert [line[-1] for line in lines[-2:]] == ["yes", "-"]


def test_plan_prints_each_action_with_its_reason(meshsec: Meshsec, daemon: Daemon) -> None:
    assert meshsec("plan").stdout == "Nothing to do: what is, is what ought to be.\n"
    lose_sa(daemon.driver)
    (planned,) = validated(meshsec("plan", "--json"), "meshsec-plan-1")["actions"]
    text = meshsec("plan").stdout
    assert planned["peer"] == "n2"
    assert all(part in text for part in (planned["action"], planned["why"]))


def test_explain_scheduling(meshsec: Meshsec, daemon: Daemon) -> None:
    view = validated(meshsec("explain", "--scheduling", "--json"), "meshsec-scheduling-1")
    assert meshsec("explain", "--scheduling").stdout.splitlines() == view["sentences"]
    assert daemon.asked[-1] == ("scheduling", {})


@pytest.mark.parametrize("arguments", [(), ("n2", "--scheduling")])
def test_explain_wants_a_peer_or_scheduling(meshsec: Meshsec, daemon: Daemon, arguments: tuple[str, ...]) -> None:
    result = meshsec("explain", *arguments)
    assert result.exit_code == 2
    assert "either PEER, ADDRESS or NETWORK, or --scheduling" in result.stderr


def test_explain_prints_the_sentences_about_a_peer(meshsec: Meshsec, daemon: Daemon) -> None:
    view = validated(meshsec("explain", "n2", "--json"), "meshsec-explain-1")
    assert meshsec("explain", "n2").stdout.splitlines() == view["sentences"]
    assert daemon.asked[-1] == ("explain", {"peer": "n2"})


@pytest.mark.parametrize("asked", ["10.1.0.0/16", "10.1.2.3", "fd00::5"])
def test_explain_prints_the_sentences_about_a_network(meshsec: Meshsec, daemon: Daemon, asked: str) -> None:
    view = validated(meshsec("explain", asked, "--json"), "meshsec-explain-network-1")
    assert meshsec("explain", asked).stdout.splitlines() == view["sentences"]
    assert daemon.asked[-1] == ("explain", {"network": asked})


def test_a_refusal_is_printed_in_meshsecds_words(meshsec: Meshsec, daemon: Daemon) -> None:
    result = meshsec("explain", "n9")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "n9 is not a peer: there is no card of that name in the trust store" in result.stderr


@pytest.mark.parametrize(("level", "code"), [(Level.OK, 0), (Level.WARN, 3), (Level.FAIL, 1)])
def test_doctor_prints_each_check_and_exits_by_the_worst(
    level: Level, code: int, meshsec: Meshsec, daemon: Daemon
) -> None:
    daemon.level = level
    result = meshsec("doctor", "--json")
    assert (result.exit_code, validated(result, "meshsec-doctor-1")["verdict"]) == (code, level)
    text = meshsec("doctor").stdout
    assert f"{level:<4}  rules: they stand" in text
    assert ("fix: reload" in text) is (level is not Level.OK)


def test_drift_exits_with_three_when_something_differs_or_was_not_looked_at(meshsec: Meshsec, daemon: Daemon) -> None:
    fine = meshsec("drift", "--json")
    assert (fine.exit_code, validated(fine, "meshsec-drift-1")["differences"]) == (0, [])
    assert "No drift" in meshsec("drift").stdout
    one = Difference(Where.IKE_SA, "n2", "IKE_SA 1: suite", "3DES_CBC", "one of aes256gcm16", "negotiate it again")
    chain = Note(Where.RULES, "ip nat out may rewrite addresses")
    daemon.drift = Report((one,), notes=(chain,))
    assert meshsec("drift").exit_code == 3
    assert meshsec("drift").stdout.splitlines() == [
        "IKE_SA of n2: IKE_SA 1: suite: is 3DES_CBC; should be one of aes256gcm16; fix: negotiate it again",
        "note: nftables: ip nat out may rewrite addresses",
    ]
    assert meshsec("drift", "n3").exit_code == 0
    assert daemon.asked[-1] == ("drift", {"peer": "n3"})
    daemon.drift = Report(unexamined=(Note(Where.CONNECTION, "charon does not answer"),))
    away = meshsec("drift", "--json")
    assert (away.exit_code, validated(away, "meshsec-drift-1")["unexamined"][0]["where"]) == (3, "connection")
    assert "not looked at: charon does not answer" in meshsec("drift").stdout


def test_doctor_tells_of_the_time_where_the_mesh_keeps_its_own(
    meshsec: Meshsec, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without chronyc
    assert "time" not in [check["name"] for check in _checks(meshsec)]
    (config := tmp_path / "a/meshsec.toml").write_text(f'{config.read_text()}[time]\nmasters = ["rescue-1"]\n')
    *others, last = _checks(meshsec)
    assert others
    assert (last["name"], "chrony is not installed" in last["found"]) == ("time", True)


def test_doctor_tells_that_the_routers_configuration_is_not_what_ours_asks_for(
    meshsec: Meshsec, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[tuple[str, str]]:
        return [(one["level"], one["found"]) for one in _checks(meshsec) if one["name"] == "routing configuration"]

    monkeypatch.setattr(router_file, "DERIVED", tmp_path / "derived.toml")
    monkeypatch.setattr(router_file, "OWN", path := tmp_path / "olsrv2d.toml")
    assert found() == [], "there is none"
    path.write_text(meshsec("export", "olsrv2d").stdout)
    assert found() == [("ok", f"{path} is what meshsec.toml asks for")]
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace('["mesh0"]', '["mesh0", "mesh1"]'))
    assert found() == [("warn", f"{path} is not what meshsec.toml and the trust store ask for: interface")]
    path.write_text("originators = []\n")
    assert found() == [], "somebody's own"


def test_doctor_compares_what_the_routers_unit_has_derived(
    meshsec: Meshsec, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[tuple[str, str, str]]:
        checks = _checks(meshsec)
        return [(one["level"], one["found"], one["mend"]) for one in checks if one["name"] == "routing configuration"]

    monkeypatch.setattr(router_file, "DERIVED", derived := tmp_path / "derived.toml")
    monkeypatch.setattr(router_file, "OWN", own := tmp_path / "olsrv2d.toml")
    derived.write_text(meshsec("export", "olsrv2d").stdout)
    fine = ("ok", f"{derived} is what meshsec.toml asks for", "")
    assert found() == [fine]
    own.write_text(derived.read_text())
    unused = f"{own}, which `meshsec export` wrote, is not used any more: olsrv2d's unit derives its configuration"
    assert found() == [fine, ("warn", unused, f"rm {own}")]
    own.unlink()
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace('["mesh0"]', '["mesh0", "mesh1"]'))
    stale = f"{derived} is not what meshsec.toml and the trust store ask for: interface"
    assert found() == [("warn", stale, "systemctl reload olsrv2d")]
    own.write_text("originators = []\n")
    derived.unlink()
    derived.symlink_to(own)
    assert found() == [], "the operator's own is in force"


def _checks(meshsec: Meshsec) -> list[dict[str, str]]:
    return list(validated(meshsec("doctor", "--json"), "meshsec-doctor-1")["checks"])


def test_doctor_without_meshsecd_examines_the_files(meshsec: Meshsec, tmp_path: Path) -> None:
    (tmp_path / "a/peers/bad.card").write_text("garbage")
    result = meshsec("doctor", "--json")
    assert result.exit_code == 1
    levels = {check["name"]: check["level"] for check in json.loads(result.stdout)["checks"]}
    assert levels == {"meshsecd": "fail", "key": "ok", "trust": "warn", "clock": "ok"}
    (tmp_path / "a/meshsec.toml").write_text("[node]\nnaem = 1\n")
    assert "node.naem: is not a known key; perhaps 'name' is meant" in meshsec("doctor").stdout


def test_doctor_without_meshsecd_notices_a_public_key_of_another_node(
    meshsec: Meshsec, boat: Meshsec, tmp_path: Path
) -> None:
    key, public = (tmp_path / f"a/state/node.{end}" for end in ("key", "pub"))
    public.write_bytes((tmp_path / "boat/state/node.pub").read_bytes())
    (check,) = (one for one in json.loads(meshsec("doctor", "--json").stdout)["checks"] if one["name"] == "key")
    assert check["level"] == "fail"
    assert f"{key}: belongs to another public key than {public}" in check["found"]
    assert f"`rm {public}`" in check["found"]


class Busy(Daemon):
    """A server that refuses requests while its channel to n2 waits, as it does now and then."""

    first: int = 0
    """Number of polls before those, in which the channel is protected."""
    waits: int = 0
    """Number of polls in which the channel will wait."""
    set_ups: int = 0
    raced: int = 0
    """Number of requests that are refused although the channel was protected a moment before and is after."""
    untimed: int = 0
    """Number of polls after a set-up in which the lines of charon's log have not come yet."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "status" and self.first:
            self.first -= 1
        elif method == "status" and self.waits:
            self.waits -= 1
            found = await super().answer(method, params)
            peers = [one | {"state": "waiting", "reason": "a turn"} for one in found["peers"] if one["name"] == "n2"]
            return {**found, "peers": peers}
        if method == "status" and self.set_ups:
            self.untimed = max(0, self.untimed - 1)
            found = await super().answer(method, params)
            times = None if self.untimed > 0 else {"ike_sa_init": 1.0, "ike_auth": 2.0, "child": None}
            return {**found, "peers": [one | {"setup_ms": times} for one in found["peers"]]}
        if method == "renegotiate":
            if self.waits or self.raced:
                self.raced = max(0, self.raced - 1)
                raise ControlError("refused", "n2 is waiting: only a protected channel can be negotiated again")
            self.set_ups += 1
            self.waits = 0 if self.untimed else 3 if self.set_ups % 2 else 10**9 if self.set_ups == 4 else 0
        return await super().answer(method, params)


def test_a_bench_waits_for_a_channel_that_waits_and_keeps_what_it_measured(
    meshsec: Meshsec, path: Path, tmp_path: Path
) -> None:
    options = ["--yes", "--interval", "0.1", "--timeout", "1", "--json", "--into", str(tmp_path / "kept")]

    def bench(count: int) -> Result:
        return meshsec("bench", "sa-setup", "n2", *options, "--count", str(count))

    with running(path, daemon := Busy()):
        daemon.first, daemon.waits = 1, 2
        whole = bench(2)
        assert (whole.exit_code, json.loads(whole.stdout)["cells"][-1]["n"]) == (0, 2), whole.output
        partly = bench(5)
        assert (partly.exit_code, json.loads(partly.stdout)["cells"][-1]["n"]) == (1, 1)
        said = "no new SA with n2 in time: it is waiting (a turn): `meshsec explain n2` says why; the figures are those"
        assert f"{said} of 1 of 5" in partly.stderr


@pytest.mark.parametrize(
    ("peer", "waits", "said"),
    [
        ("nobody", 0, "'nobody' is the name of no peer: `meshsec peer list` shows them"),
        ("n1", 0, "n1 is this node itself; name a peer: `meshsec peer list` shows them"),
        ("n2", 10**9, "n2 is waiting, not protected: `meshsec explain n2` says why"),
    ],
)
def test_a_bench_of_set_ups_that_cannot_begin_is_refused_before_anything_is_asked(
    meshsec: Meshsec, path: Path, peer: str, waits: int, said: str
) -> None:
    kept = path.parent / "kept"
    with running(path, daemon := Busy()):
        daemon.waits = waits
        refused = meshsec("bench", "sa-setup", peer, "--into", str(kept))
    assert (refused.exit_code, refused.stderr) == (1, f"Error: {said}\n")
    assert (daemon.set_ups, kept.exists()) == (0, False)


def test_a_bench_goes_on_when_the_channel_waits_for_a_moment_between_two_looks(
    meshsec: Meshsec, path: Path, tmp_path: Path
) -> None:
    options = ["--yes", "--interval", "0.1", "--timeout", "5", "--json", "--into", str(tmp_path / "kept")]
    with running(path, daemon := Busy()):
        daemon.raced, daemon.untimed = 3, 5
        whole = meshsec("bench", "sa-setup", "n2", *options, "--count", "1")
        assert whole.exit_code == 0, whole.output
        kinds = [cell["key"]["what"] for cell in json.loads(whole.stdout)["cells"]]
        assert "ike_auth" in kinds, "the times came after the SA"
        daemon.raced = 10**9
        refused = meshsec("bench", "sa-setup", "n2", *options, "--timeout", "1", "--count", "1")
        assert refused.exit_code == 1
        assert "only a protected channel can be negotiated again" in refused.stderr


def test_watch_prints_what_happens_until_meshsecd_ends(meshsec: Meshsec, daemon: Daemon) -> None:
    result = meshsec("watch", "--json")
    expected = {"kind": "channel", "peer": "n2", "state": "held", "reason": "the route went away"}
    assert validated(result, "meshsec-watch-1") == expected
    assert result.exit_code == 1
    assert "meshsecd closed the connection" in result.stderr


def test_watch_prints_lines_for_people(meshsec: Meshsec, daemon: Daemon) -> None:
    (line,) = meshsec("watch").stdout.splitlines()
    assert line.split()[1:] == ["n2", "held", "the", "route", "went", "away"]


def test_meshsecd_changes_the_trust_store_when_it_runs(
    meshsec: Meshsec, boat: Meshsec, daemon: Daemon, path: Path
) -> None:
    card = json.loads(boat("key", "show", "--json").stdout)["card"]
    result = meshsec("peer", "add", "boat", card.upper())
    assert daemon.asked == [("peer_add", {"name": "boat", "card": card})]
    assert (result.exit_code, result.stderr) == (0, "")
    assert not list((path.parents[1] / "peers").iterdir()), "the file is the daemon's business"
    result = meshsec("peer", "remove", "boat")
    assert (result.exit_code, result.stdout) == (0, "boat is trusted no longer\n")


def test_warnings_about_other_cards_come_from_meshsecd_and_not_from_the_files(
    meshsec: Meshsec, boat: Meshsec, daemon: Daemon, path: Path
) -> None:
    (path.parents[1] / "peers/boat.card").mkdir()  # whoever opened it would fail
    card = json.loads(boat("key", "show", "--json").stdout)["card"]
    added = meshsec("peer", "add", "raft", card)
    assert added.exit_code == 0
    assert "the card names its node 'boat', as does that of peer 'boat'" in added.stderr
    removed = meshsec("peer", "remove", "member")
    assert (removed.exit_code, removed.stderr) == (0, "")
    assert removed.stdout.startswith("member stays a peer by the fleet rescue")


def test_after_meshsecds_refusal_no_file_is_changed(
    meshsec: Meshsec, boat: Meshsec, daemon: Daemon, path: Path
) -> None:
    card = json.loads(boat("key", "show", "--json").stdout)["card"]
    result = meshsec("peer", "add", "ship", card)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ship is refused here" in result.stderr
    assert not list((path.parents[1] / "peers").iterdir())


def test_another_socket_can_be_named(meshsec: Meshsec, daemon: Daemon, path: Path) -> None:
    moved = path.rename(path.with_name("other.sock"))
    assert meshsec("status").exit_code == 1
    assert meshsec("--socket", str(moved), "status").exit_code == 0


@contextmanager
def scripted(path: Path, answer: bytes) -> Iterator[None]:
    """Serve one request, answer with these bytes and close."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(60)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "meshsecd closed the connection"),
        (b'{"id": 1, "result": {}', "meshsecd closed the connection"),
        (b"hello\n", "meshsecd's answer is not JSON"),
        (b"[]\n", "meshsecd's answer is no object"),
        (b"{}\n", "meshsecd gave no result to 'plan'"),
        (b'{"id": 7, "result": {}}\n', "meshsecd gave no result to 'plan'"),
        (b'{"id": 1, "error": "broken"}\n', "broken"),
        (b'{"id": 1, "error": {"code": "busy", "message": "there are 64 clients"}}\n', "there are 64 clients"),
    ],
)
def test_a_malformed_answer_is_an_error(answer: bytes, message: str, meshsec: Meshsec, path: Path) -> None:
    with scripted(path, answer):
        result = meshsec("plan")
    assert result.exit_code == 1
    assert message in result.stderr


def test_an_answer_without_end_is_cut_off(meshsec: Meshsec, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LINE_LIMIT", 1000)
    with scripted(path, b"x" * 2000):
        assert "the answer is too long" in meshsec("plan").stderr


def test_a_silent_daemon_is_given_up_in_time(meshsec: Meshsec, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_TIMEOUT", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        result = meshsec("plan")
    assert result.exit_code == 1
    assert "meshsecd did not answer within" in result.stderr


def test_without_meshsecd_the_error_names_the_reason(meshsec: Meshsec, path: Path) -> None:
    result = meshsec("status")
    assert result.exit_code == 1
    assert f"meshsecd does not answer at {path}: No such file or directory" in result.stderr
    assert "`systemctl start meshsec.target` starts it" in result.stderr

"""olsrv2d reads its configuration again, answers on both management interfaces and survives garbage."""

import json
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import NotInTimeError, wait_until
from tests.lab.net import namespaces, topology
from tests.lab.node.routers import Mesh, Router, accepting, running

CONVERGED = 60.0
RECORDINGS = REPOSITORY / "tests" / "vectors" / "olsrd2"
SUBJECTS = [
    ("/netjsoninfo route", "netjsoninfo-route"),
    ("/netjsoninfo graph", "netjsoninfo-graph"),
    ("/olsrv2info json originator", "olsrv2info-originator"),
    ("/olsrv2info json local", "olsrv2info-local"),
    ("/olsrv2info json node", "olsrv2info-node"),
    ("/olsrv2info json edge", "olsrv2info-edge"),
    ("/olsrv2info json route", "olsrv2info-route"),
    ("/olsrv2info json attached_network", "olsrv2info-attached_network"),
    ("/olsrv2info json lan", "olsrv2info-lan"),
    ("/nhdpinfo json interface", "nhdpinfo-interface"),
    ("/nhdpinfo json link", "nhdpinfo-link"),
    ("/nhdpinfo json neighbor", "nhdpinfo-neighbor"),
    ("/nhdpinfo json link_twohop", "nhdpinfo-link_twohop"),
]


def _shape(value: object) -> object:
    """Return the types and keys of a document; a list becomes the set of the shapes in it."""
    if isinstance(value, dict):
        return tuple((key, _shape(item)) for key, item in value.items())
    if isinstance(value, list):
        return frozenset(_shape(item) for item in value)
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def test_a_settled_router_answers_in_the_shape_of_olsrd2() -> None:
    with running(topology.line(["a", "b", "c"])) as mesh:
        mesh.wait_converged(CONVERGED)
        for question, recording in SUBJECTS:
            theirs = _shape(json.loads((RECORDINGS / f"line-1-{recording}.json").read_text(encoding="utf-8")))
            _await_shape(mesh["a"], question, theirs)
            assert _shape(json.loads(mesh["a"].text.ask(question))) == theirs, question


def _await_shape(router: Router, question: str, wanted: object) -> None:
    """Wait for the shape, or not long: all routes are there before the first TC messages of both families are."""

    def has_it() -> bool:
        return _shape(json.loads(router.text.ask(question))) == wanted

    with suppress(NotInTimeError):
        wait_until(question, has_it, [], 30)


def test_a_refused_configuration_is_told_with_its_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('[tc]\ninterval = 5\nvalidity = 1\n[[interface]]\nname = "mesh0"\n', encoding="utf-8")
    refused = run([programs.olsrv2d(), "--config", str(bad), "--check"], check=False)
    assert refused.returncode == 2
    assert f"{bad}:3: tc.validity = 1 is refused; allowed: 5 to 36000 seconds" in refused.stderr
    bad.write_text('[[interface]]\nname = "mesh0"\n', encoding="utf-8")
    assert run([programs.olsrv2d(), "--config", str(bad), "--check"]).returncode == 0


def test_what_meshsec_exports_is_taken_whole(tmp_path: Path) -> None:
    """The export has every key that concerns the router, at the ends of the keys' ranges."""
    given = REPOSITORY / "tests" / "vectors" / "config" / "accepted" / "weights.toml"
    own = tmp_path / "meshsec.toml"
    paths = 'peers = "peers"\nstate = "state"\nrun = "run"\n'
    own.write_text(f'{given.read_text(encoding="utf-8")}\n[ike]\nesp = "libipsec"\n[paths]\n{paths}', encoding="utf-8")
    run([programs.meshsec(), "--config", str(own), "init"])
    exported = tmp_path / "olsrv2d.toml"
    exported.write_text(run([programs.meshsec(), "--config", str(own), "export", "olsrv2d"]).stdout, encoding="utf-8")
    assert "metric = 16776960" in exported.read_text(encoding="utf-8")
    assert run([programs.olsrv2d(), "--config", str(exported), "--check"]).returncode == 0


def test_sighup_takes_up_and_gives_up_interfaces_and_networks() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        a.configure(interfaces=[])
        b.configure(accepting([("10.99.0.0/16", a)]))
        mesh.start()
        assert a.tables().snapshot["links"] == []
        a.configure('[[attached]]\nprefix = "10.99.0.0/16"\n')
        a.daemon.send_signal(signal.SIGHUP)
        b.wait_routes(a.destinations | {"10.99.0.0/16"}, CONVERGED)
        a.configure()
        a.daemon.send_signal(signal.SIGHUP)
        b.wait_routes(a.destinations, CONVERGED)
        a.configure(interfaces=[])
        a.daemon.send_signal(signal.SIGHUP)
        b.wait_routes(set(), CONVERGED)


def test_a_program_attaches_and_withdraws_networks_while_the_router_runs() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        a.configure('[[attached]]\nprefix = "10.98.0.0/16"\n')
        b.configure(accepting((prefix, a) for prefix in ("10.98.0.0/16", "10.99.0.0/16", "fd99::/64")))
        mesh.start()
        b.wait_routes(a.destinations | {"10.98.0.0/16"}, CONVERGED)
        with a.stream() as program:
            assert set(program.tables["local_attached"]) == {"10.98.0.0/16"}
            program.command("attach", networks=[{"prefix": "10.99.0.0/16"}, {"prefix": "fd99::/64", "distance": 2}])
            b.wait_routes(a.destinations | {"10.98.0.0/16", "10.99.0.0/16", "fd99::/64"}, CONVERGED)
            b.wait_for("the distance", lambda: _distance(b, "fd99::/64") == 2, CONVERGED)
            a.daemon.send_signal(signal.SIGHUP)
            a.daemon.wait_ready()
            program.command("withdraw", prefixes=["10.99.0.0/16"])
            b.wait_routes(a.destinations | {"10.98.0.0/16", "fd99::/64"}, CONVERGED)
        assert set(a.tables().tables["local_attached"]) == {"10.98.0.0/16", "fd99::/64"}


def test_a_bad_command_changes_no_network() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a = mesh["a"]
        a.configure('[[attached]]\nprefix = "10.98.0.0/16"\n')
        mesh.start()
        bad: list[tuple[str, dict[str, object], str]] = [
            ("attach", {"networks": [{"prefix": "fd99::/64"}, {"prefix": "10.1.1.1/16"}]}, '"10.1.1.1/16" is refused'),
            ("attach", {"networks": [{"prefix": "fd99::/64", "metric": 0}]}, "metric = 0 of fd99::/64 is refused"),
            ("attach", {"networks": [{"prefix": "fd99::/64", "distance": 256}]}, "256"),
            ("attach", {"networks": [{"prefix": f"fd99::{one:x}/128"} for one in range(769)]}, "at most 768"),
            ("attach", {}, "networks"),
            ("avoid", {"neighbours": [{"address": "fd99::1", "seconds": 601}]}, "allowed: 1 to 600"),
            ("withdraw", {"prefixes": ["10.98.0.0/16"]}, "the configuration file attaches 10.98.0.0/16"),
        ]
        with a.stream() as program:
            for name, fields, reason in bad:
                program.command(name, **fields)
                while program.lines[-1]["type"] != "refused":
                    assert program.drain()
                assert reason in program.lines.pop()["reason"]
        assert set(a.tables().tables["local_attached"]) == {"10.98.0.0/16"}


def _distance(router: Router, prefix: str) -> int | None:
    """Return the distance with which another router attaches a network, as ``router`` knows it."""
    rows = json.loads(router.text.ask("/olsrv2info json attached_network"))["attached_network"]
    return next((int(row["domain_distance"]) for row in rows if row["attached_net"] == prefix), None)


def test_a_bad_file_at_sighup_leaves_the_last_good_state_in_force() -> None:
    with running(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        mesh.wait_converged(CONVERGED)
        pid = a.tables().hello["pid"]
        a.configure("willingness = 99")
        a.daemon.send_signal(signal.SIGHUP)
        a.daemon.wait_ready()
        assert "willingness = 99 is refused; allowed: 0 to 15" in a.daemon.tail()
        a.wait_routes(b.destinations, CONVERGED)
        assert a.tables().hello["pid"] == pid


def test_sighup_moves_the_routes_to_another_table() -> None:
    with running(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        mesh.wait_converged(CONVERGED)
        a.configure("route = { table = 1000, metric = 9 }")
        a.daemon.send_signal(signal.SIGHUP)
        a.daemon.wait_ready()
        a.wait_for("routes in the other table", lambda: len(a.kernel.routes("table", "1000")) == 2, CONVERGED)
        moved = a.kernel.routes("table", "1000")
        assert {route["dst"] for route in moved} == {b.ipv4, b.ipv6}
        assert {route["metric"] for route in moved} == {9}
        a.wait_for("none in the old one", lambda: not a.kernel.routes("table", "main", "proto", "100"), CONVERGED)


def test_a_reader_that_does_not_read_is_disconnected_and_disturbs_nobody() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a = mesh["a"]
        a.configure(accepting((prefix, mesh["b"]) for prefix in _NETWORKS))
        mesh.start()
        mesh.wait_converged(CONVERGED)
        with socket.socket(socket.AF_UNIX) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(str(a.socket))
            deadline = time.monotonic() + 200
            while a.counter("readers_dropped") == 0:
                assert time.monotonic() < deadline
                _flap(mesh)
        a.wait_routes(mesh.others("a"), CONVERGED)


_NETWORKS = [f"10.{n}.0.0/16" for n in range(100, 250)]


def _flap(mesh: Mesh) -> None:
    """Cause many changes: hundreds of networks come and go."""
    networks = "".join(f'[[attached]]\nprefix = "{prefix}"\n' for prefix in _NETWORKS)
    for settings in (networks, ""):
        mesh["b"].configure(settings)
        mesh["b"].daemon.send_signal(signal.SIGHUP)
        expected = mesh.others("a") | (set(_NETWORKS) if settings else set())
        mesh["a"].wait_routes(expected, CONVERGED)


def test_malformed_packets_by_the_thousand_disturb_nothing() -> None:
    with running(topology.line(["a", "b", "c"])) as mesh:
        mesh.wait_converged(CONVERGED)
        b = mesh["b"]
        before = b.daemon.pid
        assert _spray(mesh, 5000) == 5000
        b.wait_for(
            "the malformed packets are counted",
            lambda: b.counter("malformed") > 100,
            CONVERGED,
        )
        assert b.daemon.pid == before
        mesh["a"].wait_routes(mesh.others("a"), CONVERGED)
        assert mesh["a"].reaches(mesh["c"])


def _spray(mesh: Mesh, count: int) -> int:
    """Send random bytes and random changes of a plausible packet from ``a`` to ``b``. Return how many were sent."""
    generator = random.Random(7)
    plausible = bytes.fromhex("0840e10083005a0a4d00010015001001580110017207100177058002")
    opened = namespaces.within(mesh["a"].namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with opened as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"mesh-b")
        for number in range(count):
            packet = bytearray(plausible if number % 2 else generator.randbytes(generator.randrange(1, 1200)))
            for _ in range(3):
                packet[generator.randrange(len(packet))] = generator.randrange(256)
            sender.sendto(bytes(packet), (mesh["b"].ipv4, 269))
    return count


def test_a_taken_text_port_is_named_and_fatal() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a = mesh["a"]
        a.configure('management.telnet = "127.0.0.1:2009"')
        with namespaces.within(a.namespace, lambda: socket.create_server(("127.0.0.1", 2009))):
            refused = a.run(programs.olsrv2d(), "--config", str(a.config), check=False)
        assert refused.returncode == 1
        assert "management.telnet 127.0.0.1:2009" in refused.stderr

"""meshsecd as a process in a network namespace of its own, without any other daemon."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.files import trust_store
from meshsec.adapters.sockets.control import ControlError
from meshsec.agent.control import scheduling_facts
from meshsec.core.channels.nft_rules import HELD_TABLES
from meshsec.core.trust import card as cards
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/cards/valid.json").read_text(encoding="utf-8")
)
BOAT = cards.parse(VECTORS[4]["card"])
PROGRAMS = Path(sys.executable).parent
CONFIG = """\
[node]
name = "rescue-1"
[routing]
interfaces = ["mesh0"]
socket = "changes.sock"
[paths]
peers = "peers"
state = "state"
run = "run"
[scheduling]
profile = "stock"
"""


class Node:
    """A set-up node and at most one meshsecd."""

    def __init__(self, directory: Path, namespace: str) -> None:
        self.directory = directory
        self.namespace = namespace
        self.config = directory / "meshsec.toml"
        self.config.write_text(CONFIG)
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.stored: list[int] = []
        """Open files that the service manager would keep."""
        subprocess.run([PROGRAMS / "meshsec", "--config", self.config, "init"], check=True, capture_output=True)

    def argv(self, *options: str) -> list[str]:
        return [
            "ip",
            "netns",
            "exec",
            self.namespace,
            str(PROGRAMS / "meshsecd"),
            "--config",
            str(self.config),
            *options,
        ]

    def start(self) -> None:
        """Start meshsecd in the foreground, and return when it has told the service manager READY."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, self.log.open("ab") as log:
            address = self.directory / "notify"
            address.unlink(missing_ok=True)
            manager.bind(str(address))
            manager.settimeout(60)
            environment = dict(os.environ, NOTIFY_SOCKET=str(address))
            self.process = subprocess.Popen(self.argv(), env=environment, stderr=log, stdout=log)
            while (told := socket.recv_fds(manager, 256, 4))[0] != b"READY=1":
                self.stored += told[1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process = None
        return code

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        return self._ask("control", method, params)

    def look(self, method: str, /, **params: object) -> dict[str, Any]:
        """Ask at the socket for those who only look."""
        return self._ask("view", method, params)

    def _ask(self, by: str, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(self.directory / f"run/{by}.sock"))
            client.sendall(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n")
            with client.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline())
                return answer

    def rules(self) -> str:
        """Return the rules that outlive meshsecd, with the tables of other programs."""
        tables = ip("netns", "exec", self.namespace, "nft", "list", "ruleset").split("\n}\n")
        return "\n".join(table for table in tables if not table.startswith(f"table inet {HELD_TABLES[0]} "))


@pytest.fixture
def node(tmp_path: Path, inside: str) -> Iterator[Node]:
    node = Node(tmp_path, inside)
    trust_store.add(tmp_path / "peers", "boat", BOAT, cards.parse(VECTORS[1]["card"]))
    yield node
    if node.process:
        node.process.kill()
        node.process.wait()
    for stored in node.stored:
        os.close(stored)


def test_when_it_is_ready_rules_and_addresses_are_in_place(node: Node) -> None:
    node.start()
    assert str(BOAT.address) in node.rules()
    status = node.ask("status")["result"]
    assert status["rules_stand"]
    assert [peer["name"] for peer in status["peers"]] == ["boat"]
    assert not status["ike_daemon"]["up"]
    assert status["node"]["address"] in ip("-n", node.namespace, "-6", "addr", "show", "dev", "lo")


def test_the_rules_outlive_it(node: Node) -> None:
    node.start()
    assert node.stop() == 0
    assert str(BOAT.address) in node.rules()
    assert not (node.directory / "run/control.sock").exists()
    assert "SAs and rules stay in place" in node.log.read_text()


def test_killed_and_started_again_it_serves_at_the_same_socket(node: Node) -> None:
    node.start()
    node.stop(signal.SIGKILL)
    assert str(BOAT.address) in node.rules()
    node.start()
    assert node.ask("ping")["result"]["version"]


def test_who_only_looks_sees_the_same_and_changes_nothing(node: Node) -> None:
    node.start()
    assert node.look("status")["result"]["peers"][0]["name"] == "boat"
    assert node.look("peer_remove", name="boat")["error"]["code"] == "unknown_method"
    session = node.look("login", token=page_token(node))["result"]["session"]
    change = {"method": "peer_remove", "params": {"name": "boat"}}
    assert node.look("change", session="x", **change)["error"]["code"] == "not_logged_in"
    assert node.ask("status")["result"]["peers"] != []
    assert node.look("change", session=session, **change)["result"] == {"name": "boat", "fleet": ""}
    assert node.ask("status")["result"]["peers"] == []


def page_token(node: Node) -> str:
    """Listen as the page does, and return a token for what listens there. Before, meshsecd makes none."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection,
    ):
        place: dict[str, object] = {"addresses": ["127.0.0.1"], "port": listener.getsockname()[1]}
        assert node.ask("page_login", **place)["error"]["code"] == "refused"
        connection.connect(str(node.directory / "run/page.sock"))
        socket.send_fds(connection, [connection.recv(64)], [listener.fileno()])
        wait_for(lambda: "result" in node.ask("page_login", **place), "a login")
        return str(node.ask("page_login", **place)["result"]["token"])


def test_a_second_one_is_refused(node: Node) -> None:
    node.start()
    second = subprocess.run(node.argv(), check=False, capture_output=True, text=True)
    assert second.returncode == 1
    assert "another meshsecd runs" in second.stderr
    assert node.ask("ping")["result"], "the first is not disturbed"


@pytest.mark.parametrize(
    ("spoil", "told", "status"),
    [
        (lambda node: node.config.write_text("[node]\nname = 7\n"), "meshsec.toml:2", 1),
        (lambda node: (node.directory / "state/node.key").chmod(0o644), "node.key", 1),
        (lambda node: (node.directory / "state/node.key").unlink(), "node.key", os.EX_CONFIG),
    ],
    ids=["configuration", "key for all to read", "no key"],
)
def test_it_does_not_start_with_files_that_it_cannot_trust(node: Node, spoil: Any, told: str, status: int) -> None:
    spoil(node)
    ended = subprocess.run(node.argv(), check=False, capture_output=True, text=True)
    assert ended.returncode == status
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_hangup_reads_the_trust_store_again_and_keeps_the_last_good_state(node: Node) -> None:
    node.start()
    (node.directory / "peers/boat.card").write_text("nonsense\n")
    assert node.process
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "stays in force" in node.log.read_text(), "the bad card to be told")
    status = node.ask("status")["result"]
    assert [peer["name"] for peer in status["peers"]] == ["boat"]
    assert "boat.card" in status["problems"][0]
    levels = {check["name"]: check["level"] for check in node.ask("doctor")["result"]["checks"]}
    assert levels["trust store"] == "warn"


def test_a_changed_configuration_is_checked_and_reported_but_not_loaded(node: Node) -> None:
    node.start()
    node.config.write_text(CONFIG.replace("mesh0", "mesh1"))
    (problem,) = node.ask("reload")["result"]["problems"]
    assert "`meshsec up` puts it into force" in problem
    node.config.write_text("nonsense")
    (problem,) = node.ask("reload")["result"]["problems"]
    assert "meshsec.toml:1" in problem
    node.config.write_text(CONFIG)
    assert node.ask("reload")["result"]["problems"] == []


def test_doctor_notices_an_interface_that_is_down_and_a_changed_configuration(node: Node) -> None:
    node.start()
    ip("-n", node.namespace, "link", "add", "mesh0", "type", "veth", "peer", "name", "other")
    node.config.write_text(CONFIG.replace('"rescue-1"', '"rescue-2"'))
    checks = {check["name"]: check for check in node.ask("doctor")["result"]["checks"]}
    interface, configuration = checks["interface mesh0"], checks["configuration"]
    assert (interface["level"], interface["found"]) == ("warn", "is down")
    assert (configuration["level"], configuration["mend"]) == ("warn", "meshsec up")
    ip("-n", node.namespace, "link", "set", "mesh0", "up")
    checks = {check["name"]: check for check in node.ask("doctor")["result"]["checks"]}
    assert checks["interface mesh0"]["found"] == "is up and has no link to anybody"
    ip("-n", node.namespace, "link", "set", "other", "up")
    checks = {check["name"]: check for check in node.ask("doctor")["result"]["checks"]}
    assert checks["interface mesh0"]["level"] == "ok"


def checked(node: Node, name: str) -> dict[str, str]:
    """Return what doctor finds under a name; empty if it does not judge that."""
    checks: list[dict[str, str]] = node.ask("doctor")["result"]["checks"]
    return {check["name"]: check for check in checks}.get(name, {})


def test_doctor_notices_a_public_key_of_another_node_and_a_key_that_was_replaced(node: Node) -> None:
    node.start()
    assert checked(node, "node key")["level"] == "ok"
    key, public = (node.directory / f"state/node.{end}" for end in ("key", "pub"))
    before = [path.read_bytes() for path in (key, public)]
    for path in (key, public):
        path.unlink()
    subprocess.run([PROGRAMS / "meshsec", "--config", node.config, "init"], check=True, capture_output=True)
    found = checked(node, "node key")
    assert found["level"] == "warn"
    assert found["found"].startswith(f"{key} holds another key than the one that meshsecd uses")
    assert found["mend"].startswith("systemctl restart meshsecd")
    public.write_bytes(before[1])
    found = checked(node, "node key")
    assert found["level"] == "fail"
    assert f"{key}: belongs to another public key than {public}" in found["found"]
    key.write_bytes(before[0])
    assert checked(node, "node key")["level"] == "ok"


def test_doctor_says_which_peer_is_called_otherwise_on_its_card(node: Node) -> None:
    node.start()
    node.ask("peer_remove", name="boat")
    node.ask("peer_add", name=BOAT.name, card=VECTORS[4]["card"])
    assert checked(node, "peers' names") == {}
    node.ask("peer_remove", name=BOAT.name)
    node.ask("peer_add", name="raft", card=VECTORS[4]["card"])
    assert f"raft (on its card: {BOAT.name})" in checked(node, "peers' names")["found"]


def test_peers_come_and_go_by_the_control_socket(node: Node) -> None:
    node.start()
    ship, outside = VECTORS[3], VECTORS[2]
    answer = node.ask("peer_add", name="ship", card=ship["card"])
    assert answer.get("result", {}).get("name") == "ship", answer
    address = str(cards.parse(ship["card"]).address)
    wait_for(lambda: address in node.rules(), "the new peer's rules")
    assert node.ask("peer_add", name="again", card=ship["card"])["error"]["code"] == "refused"
    error = node.ask("peer_add", name="outside", card=outside["card"])["error"]
    assert (error["code"], outside["ipv4"] in error["message"]) == ("refused", True)
    assert node.ask("peer_add", name="bad", card="nonsense")["error"]["code"] == "refused"
    assert node.ask("peer_add", name="bad")["error"]["code"] == "bad_params"
    assert node.ask("peer_remove", name="ship")["result"]
    assert node.ask("explain", peer="ship")["error"]["code"] == "unknown_peer"
    assert node.ask("nonsense")["error"]["code"] == "unknown_method"


def test_rules_that_another_program_removed_are_set_again(node: Node) -> None:
    node.start()
    ip("netns", "exec", node.namespace, "nft", "flush", "ruleset")
    wait_for(lambda: str(BOAT.address) in node.rules(), "the rules to come back")


def test_killed_it_leaves_rules_that_no_other_program_can_remove(node: Node) -> None:
    node.start()
    node.stop(signal.SIGKILL)
    ip("netns", "exec", node.namespace, "nft", "flush", "ruleset")
    assert f"table inet {HELD_TABLES[0]} " in ip("netns", "exec", node.namespace, "nft", "list", "ruleset")
    assert len(node.stored) == 1
    os.close(node.stored.pop())
    assert not ip("netns", "exec", node.namespace, "nft", "list", "ruleset"), "it is the socket that holds them"


def test_addresses_that_another_key_left_are_taken_off_and_drift_finds_none(node: Node) -> None:
    """After the repair of a clone a trusted peer may have these addresses."""

    def on_loopback() -> str:
        return ip("-n", node.namespace, "-6", "addr", "show", "dev", "lo")

    left, operators = (str(BOAT.address), str(BOAT.locator)), "fd77::7"
    for address in (*left, operators):
        ip("-n", node.namespace, "addr", "add", f"{address}/128", "dev", "lo")
    node.start()
    assert not [one for one in left if one in on_loopback()]
    assert operators in on_loopback(), "nobody's address but the operator's"
    assert node.ask("status")["result"]["node"]["address"] in on_loopback()
    assert f"belongs to another key: {left[0]}, {left[1]}" in node.log.read_text()
    ip("-n", node.namespace, "addr", "add", f"{left[0]}/128", "dev", "lo")
    wait_for(lambda: left[0] not in on_loopback(), "the address to go again")
    assert not [one for one in node.ask("drift")["result"]["differences"] if one["where"] == "address"]


def test_a_removed_address_comes_back_and_a_late_interface_gets_its_own(node: Node) -> None:
    node.config.write_text(CONFIG.replace("[routing]", 'ipv4 = "10.77.0.1"\n[routing]'))
    node.start()
    address = node.ask("status")["result"]["node"]["address"]
    ip("-n", node.namespace, "addr", "del", f"{address}/128", "dev", "lo")
    wait_for(lambda: address in ip("-n", node.namespace, "-6", "addr", "show", "dev", "lo"), "the address")
    ip("-n", node.namespace, "link", "add", "mesh0", "type", "veth", "peer", "name", "other")
    wait_for(lambda: "10.77.0.1" in ip("-n", node.namespace, "addr", "show", "dev", "mesh0"), "the interface's")


def test_detached_it_writes_its_pid_and_its_log(node: Node) -> None:
    pidfile, log = node.directory / "pid", node.directory / "detached.log"
    subprocess.run(node.argv("--detach", "--pidfile", str(pidfile), "--log-file", str(log)), check=True, timeout=120)
    wait_for(lambda: log.exists() and "ready" in log.read_text(), "the detached daemon to be ready")
    pid = int(pidfile.read_text())
    try:
        assert node.ask("ping")["result"]
        assert os.getsid(pid) != os.getsid(0)
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not pidfile.exists(), "the daemon to end")


@pytest.mark.parametrize(
    ("option", "bad", "why"),
    [
        ("--pidfile", "/dev/full", "No space left on device"),
        ("--pidfile", "/nowhere/pid", "No such file or directory"),
        ("--log-file", "/nowhere/log", "No such file or directory"),
    ],
)
def test_detached_it_names_the_file_that_it_cannot_write_and_does_not_run(
    node: Node, option: str, bad: str, why: str
) -> None:
    argv = node.argv("--detach", "--log-file", str(node.directory / "detached.log"), option, bad)
    result = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 1
    assert result.stderr == f"Error: {bad}: {why}\n"
    with (node.directory / "run/meshsecd.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_no_secret_is_logged(node: Node) -> None:
    node.start()
    node.stop()
    secret = (node.directory / "state/node.key").read_text().splitlines()[1]
    assert secret[16:40] not in node.log.read_text()


def test_a_card_that_cannot_be_read_at_the_start_opens_nothing_to_its_peer(node: Node) -> None:
    """The peer does not count as an unknown node, to which the policy allows data in the clear."""
    node.config.write_text(CONFIG + '[policy]\nunknown_nodes = "allow"\n')
    card = node.directory / "peers/boat.card"
    good = card.read_text()
    node.start()
    assert 'unknown_out" drop' not in node.rules()
    node.stop(signal.SIGKILL)
    card.write_text("damaged\n")
    node.start()
    assert 'unknown_out" drop' in node.rules()
    assert "unknown nodes are closed" in str(node.ask("status")["result"]["problems"])
    assert "unknown nodes are closed" in str(node.ask("doctor")["result"]["checks"])
    card.write_text(good)
    node.ask("reload")
    wait_for(lambda: 'unknown_out" drop' not in node.rules(), "unknown nodes to be open again")
    assert str(BOAT.address) in node.rules()


@pytest.mark.parametrize(("policy", "closed"), [("drop", True), ("open", False)])
def test_a_peer_removed_before_a_restart_stays_closed_as_the_policy_says(node: Node, policy: str, closed: bool) -> None:
    node.config.write_text(CONFIG + f'[policy]\nunknown_nodes = "allow"\nremoved_peers = "{policy}"\n')
    node.start()
    node.ask("peer_remove", name="boat")
    node.stop(signal.SIGKILL)
    node.start()
    assert (str(BOAT.address) in node.rules()) is closed


def test_scheduling_is_explained_and_streams_report_by_the_control_socket(node: Node) -> None:
    (node.directory / "scheduling").mkdir()
    (node.directory / "scheduling/mine.toml").write_text('description = "Ours."\n[[ladder]]\nnice = -1\n')
    node.config.write_text(CONFIG.replace("stock", "mine") + "[scheduling.governor]\nshare = 0.3\n")
    node.start()
    view = node.ask("scheduling")["result"]
    assert view["profile"] == "mine"
    assert view["governor"]["mode"] == "absent"
    assert view["governor"]["deadline_ms"] == 100
    answer = node.ask("stream_report", stream="video", frames=60, dropped=3, delay_ms=12.5)
    assert answer["result"] == {"share": 0.3}
    reported = node.ask("scheduling")["result"]["governor"]["streams"]
    assert reported == [{"stream": "video", "report": "lost 5.0% of its frames, 12 ms late"}]
    names = {check["name"] for check in node.ask("doctor")["result"]["checks"]}
    assert "scheduling" in names


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "stream: None is not allowed"),
        ({"stream": "x" * 65}, "allowed: 1 to 64 printable characters"),
        ({"stream": "a\nb"}, "allowed: 1 to 64 printable characters"),
        ({"stream": "a", "frames": -1}, "frames: -1 is not allowed"),
        ({"stream": "a", "frames": 1, "dropped": 2}, "dropped: 2 is not allowed; allowed: a whole number from 0 to 1"),
        ({"stream": "a", "frames": True}, "frames: True is not allowed"),
        ({"stream": "a", "delay_ms": 60_001}, "delay_ms: 60001 is not allowed"),
    ],
)
def test_a_malformed_stream_report_is_refused(params: dict[str, object], told: str) -> None:
    with pytest.raises(ControlError, match=re.escape(told)) as refused:
        scheduling_facts.report(object(), params)  # type: ignore[arg-type]  # refused before anything is looked at
    assert refused.value.code == "bad_params"


def mode(node: Node, **params: object) -> tuple[str, list[tuple[str, bool]]]:
    view = node.ask("mode", **params)["result"]
    return view["default"], [(peer["plane"], peer["override"]) for peer in view["peers"]]


def with_overlay(node: Node) -> Node:
    node.config.write_text(f"{CONFIG}\n[overlay]\nenabled = true\nsocket = 'overlayd.sock'\n")
    node.start()
    return node


def test_a_choice_of_mode_outlives_meshsecd(node: Node) -> None:
    with_overlay(node)
    assert mode(node) == ("ipsec", [("ipsec", False)])
    assert mode(node, plane="overlay", peer="boat") == ("ipsec", [("overlay", True)])
    assert mode(node, plane="overlay") == ("overlay", [("overlay", True)])
    assert node.stop() == 0
    node.start()
    assert mode(node) == ("overlay", [("overlay", True)])
    assert mode(node, plane=None, peer="boat") == ("overlay", [("overlay", False)])
    assert mode(node, plane=None) == ("ipsec", [("ipsec", False)])


def test_an_impossible_mode_is_refused(node: Node) -> None:
    node.start()
    assert node.ask("mode", plane="overlay")["error"]["code"] == "refused"
    assert "enabled" in node.ask("mode", plane="overlay", peer="boat")["error"]["message"]
    assert node.ask("mode", plane="ipsec", peer="nobody")["error"]["code"] == "unknown_peer"
    for bad in ("plain", "", 1, ["overlay"]):
        assert node.ask("mode", plane=bad)["error"]["code"] == "bad_params"
    assert node.ask("mode", peer="boat")["error"]["code"] == "bad_params"
    assert mode(node, plane="ipsec", peer="boat") == ("ipsec", [("ipsec", True)])


def test_a_damaged_file_of_modes_is_reported_and_the_policy_decides(node: Node) -> None:
    (node.directory / "state" / "modes.json").write_text("{")
    with_overlay(node)
    assert mode(node) == ("ipsec", [("ipsec", False)])
    assert "modes.json" in str(node.ask("status")["result"]["problems"])
    mode(node, plane="overlay", peer="boat")
    assert node.ask("status")["result"]["problems"] == []


def test_status_and_doctor_report_that_overlayd_is_away(node: Node) -> None:
    with_overlay(node)
    overlay = node.ask("status")["result"]["overlay"]
    assert (overlay["up"], overlay["device"]) == (False, "overlay0")
    found = {check["name"]: check for check in node.ask("doctor")["result"]["checks"]}
    assert found["overlay"]["level"] == "fail"
    assert "overlayd.sock" in found["overlay"]["found"]


def test_routes_of_a_former_overlay_are_removed_when_it_is_no_longer_enabled(node: Node) -> None:
    ip(
        "-n",
        node.namespace,
        "-6",
        "rule",
        "add",
        "iif",
        "lo",
        "to",
        "fc00::/8",
        "lookup",
        "221",
        "pref",
        "219",
        "protocol",
        "101",
    )
    node.start()
    assert "lookup 221" not in ip("-n", node.namespace, "-6", "rule")

"""An account that wants the page's port gets it never while a login is worth something, and no login once it has it."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.forge import account
from tests.lab.forge.account import Held
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options

TAKING = """
import socket
taken = []
for place in ("127.0.0.1", "::1", "0.0.0.0", "::"):
    s = socket.socket(socket.AF_INET6 if ":" in place else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if ":" in place:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        s.bind((place, 8269))
        s.listen()
        taken.append(s)
    except OSError:
        pass
"""
"""What the account tries: to listen beside or in place of the page, with all that lets two sockets share a port."""
HOLDING = f"""{TAKING}
print("held" if taken else "nothing", flush=True)
try:
    input()
except EOFError:
    pass
"""
ASK = """
import json, sys, urllib.error, urllib.request
path, body, secret = sys.argv[1:]
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + secret}
asked = urllib.request.Request("http://localhost:8269/api/" + path, body.encode(), headers)
try:
    print(urllib.request.urlopen(asked, timeout=20).read().decode())
except urllib.error.HTTPError as error:
    print(json.dumps({"status": error.code}))
"""
NOBODY = json.dumps({"method": "peer_remove", "params": {"name": "nobody"}})


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node with its page."""
    with Lab("thief", line(names(2))) as lab:
        lab.set_up({"a": Options(page={})})
        lab.start()
        yield lab["a"]


def log_in(node: Node) -> str:
    """Return the address that a browser opens, once meshsecd holds the page's sockets."""

    def printed() -> str | None:
        done = node.meshsec("page", "login", "--json", check=False)
        return done.stdout if done.returncode == 0 else None

    return str(json.loads(node.wait_for("a login", printed, 20))["local"])


def asked(node: Node, path: str, body: str, secret: str = "") -> dict[str, object]:
    found: dict[str, object] = json.loads(node.run("/usr/bin/python3", "-c", ASK, path, body, secret).stdout)
    return found


def test_nobody_gets_the_port_while_a_login_is_good_and_no_login_is_made_for_whoever_has_it(node: Node) -> None:
    """The controls: the login survives a restart of the page, and the account gets the port once nobody holds it."""
    page, agent = node.daemons.page, node.daemons.agent
    token = log_in(node).partition("=")[2]
    page.kill()
    assert account.try_once(node, f"{TAKING}\nprint(len(taken))") == "0", "meshsecd holds it while the page is away"
    page.start()
    page.wait_ready()
    secret = str(asked(node, "login", json.dumps({"token": token}))["session"])
    assert asked(node, "change", NOBODY, secret) == {"status": 409}, "meshsecd knows nobody of that name"
    agent.kill()
    page.kill()
    with Held(node, HOLDING):
        agent.start()
        agent.wait_ready()
        page.start()
        node.wait_for("the page ends", lambda: not page.running, 20)
        assert "Address already in use; `ss -ltnp 'sport = :8269'`" in page.tail()
        done = node.meshsec("page", "login", check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert "somebody else may" in done.stderr
    page.start()
    page.wait_ready()
    assert log_in(node).startswith("http://localhost:8269/#login=")
    assert asked(node, "change", NOBODY, secret) == {"status": 401}, "what the account may have heard is worth nothing"

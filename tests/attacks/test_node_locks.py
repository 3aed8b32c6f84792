"""An account without privileges cannot make meshsecd or its operator wait: it can lock nothing that they open."""

import fcntl
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.lab.forge import account
from tests.lab.forge.account import Held
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node

SECONDS = 30
"""For a command that takes less than a second: this machine may be busy."""


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    """Start the mesh a - b, whose operator is about to change whom it trusts."""
    with Lab("locks", line(names(2))) as lab:
        lab.set_up().trust_all().start()
        yield lab


def flocked(path: object) -> str:
    """Return code that locks everything below a path that the account can open."""
    return f"""
import fcntl, os, pathlib
top = pathlib.Path({str(path)!r})
held = []
for one in (top, *top.rglob("*"), top / ".lock"):
    try:
        held.append(os.open(one, os.O_RDONLY | os.O_NONBLOCK))
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
print("held", flush=True)
try:
    input()
except EOFError:
    pass
"""


def locked_by_others(path: object) -> bool:
    """Return whether somebody holds a lock of a file."""
    descriptor = os.open(str(path), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def answered(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the result of a command that must not wait."""
    return node.meshsec(*arguments, check=False, timeout=SECONDS)


def test_an_account_that_locks_the_trust_store_delays_no_revocation(pair: Lab) -> None:
    """The control: it does hold the lock of the directory, for which `meshsec` waited before."""
    a, b = pair["a"], pair["b"]
    answered(a, "peer", "unrevoke", b.fingerprint)
    with Held(a, flocked(a.peers)):
        assert locked_by_others(a.peers), "the attack is no attack"
        revoked = answered(a, "peer", "revoke", "b", "--reason", "stolen")
        assert revoked.returncode == 0, revoked.stderr
        a.wait_for(
            "b is no peer", lambda: not a.control.peer(b.name) or a.control.peer(b.name)["state"] == "untrusted", 30
        )
        for command in (("peer", "unrevoke", b.fingerprint), ("peer", "add", "b", b.card), ("doctor",)):
            done = answered(a, *command)
            assert "did not answer" not in done.stderr, done.stderr
            assert done.returncode == 0 or command == ("doctor",), done.stderr
    a.wait_protected(b)


def test_the_lock_is_a_file_that_an_account_cannot_open(pair: Lab) -> None:
    """The control: the account can open the store's other files, which hold no secret."""
    a, b = pair["a"], pair["b"]
    answered(a, "peer", "add", "b", b.card)
    answered(a, "peer", "unrevoke", "0" * 64)  # It is refused after it has had the lock.
    lock, card = a.peers / ".lock", a.peers / "b.card"
    assert account.try_once(a, f"import os; os.open({str(lock)!r}, os.O_RDONLY)").startswith("PermissionError")
    assert account.try_once(a, f"import os; print(os.open({str(card)!r}, os.O_RDONLY) > 0)") == "True"


def test_a_writer_that_stands_still_is_named_and_ends_the_wait(pair: Lab) -> None:
    """A program of root's holds the lock: the command ends with its PID, and doctor answers meanwhile."""
    a, b = pair["a"], pair["b"]
    answered(a, "peer", "unrevoke", "0" * 64)
    with (a.peers / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        commands = [
            subprocess.Popen(["timeout", str(SECONDS), *argv], stderr=subprocess.PIPE, text=True)
            for argv in [_argv(a, "peer", "revoke", "b")] * 8
        ]
        assert "did not answer" not in answered(a, "doctor").stderr
        said = [command.communicate()[1] for command in commands]
    assert any(str(os.getpid()) in one and ".lock" in one and "kill" in one for one in said), said
    assert a.control.peer(b.name)


def _argv(node: Node, *arguments: str) -> list[str]:
    meshsec = [*node.meshsec("--version").args]
    return [*meshsec[:-1], *arguments]

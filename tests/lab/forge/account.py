"""An account of the node without any privilege: programs that run as ``nobody`` inside a node's namespace."""

import subprocess
from types import TracebackType
from typing import Self

from tests.lab.basics.patience import patient
from tests.lab.node.node import Node

UID = 65534
"""``nobody`` and ``nogroup``: it owns nothing and is in no group."""
_PREFIX = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs")


def try_once(node: Node, code: str) -> str:
    """Run Python code as the account. Return the last line that it prints, or the last line of its exception."""
    result = node.run(*_PREFIX, "/usr/bin/python3", "-I", "-c", code, check=False)
    return (result.stdout.strip() or result.stderr.strip()).rpartition("\n")[2]


class Held:
    """Python code that runs as the account until the block is left, for example to hold a lock or a socket.

    The code holds what it has taken when its line ``print('held', flush=True)`` has come; it must read standard input
    to its end afterwards (``input()``), so that it ends with the block. ``as_root`` is for a control.
    """

    def __init__(self, node: Node, code: str, *, as_root: bool = False) -> None:
        account = () if as_root else _PREFIX
        self._argv = ["ip", "netns", "exec", node.namespace, *account, "/usr/bin/python3", "-I", "-c", code]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if said != "held":
            self._end()
            raise AssertionError(f"the account could not take it: {said}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """The PID of the program."""
        return self._process.pid

    def _end(self) -> None:
        try:
            self._process.communicate(timeout=patient(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def bound(body: str) -> str:
    """Return code for ``Held`` that takes UDP 4500 and then does something with the socket ``s``."""
    return f"""
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 4500))
{body}
print("held", flush=True)
try:
    input()
except EOFError:
    pass
"""

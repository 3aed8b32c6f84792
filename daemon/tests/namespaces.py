"""Network namespaces for tests, and waiting for conditions outside of the process."""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from pyroute2 import netns

_serial = itertools.count()

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def ip(*arguments: str, check: bool = True) -> str:
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True).stdout


@pytest.fixture
def new_namespace() -> Iterator[Callable[[], str]]:
    """Give a function that makes network namespaces with an up loopback device, and remove them afterwards.

    Their kernels send no router solicitations, which the wall would count.
    """
    made: list[str] = []

    def make() -> str:
        name = f"mst{os.getpid()}-{next(_serial)}"
        ip("netns", "add", name)
        made.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.accept_ra=0")
        return name

    yield make
    for name in made:
        ip("netns", "delete", name, check=False)


@pytest.fixture
def inside(new_namespace: Callable[[], str]) -> Iterator[str]:
    """Run the test in a namespace of its own."""
    name = new_namespace()
    netns.pushns(name)
    yield name
    netns.popns()


def wait_for(ready: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait until a condition holds; fail when it takes too long."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.005)

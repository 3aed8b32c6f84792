"""olsrd2, the other OLSRv2 router."""

from collections.abc import Iterable

from tests.lab.basics import programs
from tests.lab.basics.processes import Daemon
from tests.lab.node.routers import Router
from tests.lab.observe.kernel_events import PacketEvents


class Olsrd2(Router):
    """A node with olsrd2, which has no change stream and does not report when it is ready."""

    make = "olsrd2"
    has_query_socket = False

    def _changes(self) -> PacketEvents:
        return PacketEvents(self.namespace)

    def _configuration(self, settings: str, interfaces: Iterable[str], each: str) -> str:
        sections = "".join(f"[interface={name}]\n{each}\n" for name in interfaces)
        return f"[global]\n lockfile -\n fork no\n[log]\n stderr true\n{settings}\n[interface=lo]\n{sections}"

    def _daemon(self) -> Daemon:
        argv = [programs.olsrd2(), f"--load={self.config}"]
        name, own = f"olsrd2-{self.name}", self.directory
        return Daemon(name, self.namespace, argv, logs=own, sockets=own, notifies=False)

"""Let a node offer a service."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.node.node import Node


def restart(node: Node) -> None:
    """Let meshsecd read its configuration."""
    node.daemons.agent.kill()
    node.daemons.agent.start()
    node.daemons.agent.wait_ready()


@contextmanager
def offering(node: Node, text: str) -> Iterator[None]:
    """Let a node offer something."""
    before = node.config.read_text(encoding="utf-8")
    node.config.write_text(f"{before}\n{text}", encoding="utf-8")
    restart(node)
    try:
        yield
    finally:
        node.config.write_text(before, encoding="utf-8")
        restart(node)

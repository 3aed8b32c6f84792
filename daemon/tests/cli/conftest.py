"""A node's files, and the command line run on them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from meshsec.cli import main

CONFIG = """\
[node]
name = "{name}"
ipv4 = "{ipv4}"

[routing]
interfaces = ["mesh0"]
hello_interval = 0.5
attached = [{{ prefix = "10.9.0.0/16", distance = 2 }}]

[ike]
esp = "libipsec"

[paths]
peers = "peers"
state = "state"
run = "run"
"""

Meshsec = Callable[..., Result]


def node(directory: Path, name: str, ipv4: str) -> Meshsec:
    """A node that is set up in ``directory``; the answer runs ``meshsec`` on it."""
    config = directory / "meshsec.toml"
    config.parent.mkdir()
    config.write_text(CONFIG.format(name=name, ipv4=ipv4))

    def run(*arguments: str, input: str | None = None) -> Result:  # noqa: A002 - as click names it
        result = CliRunner().invoke(main, ["--config", str(config), *arguments], input=input)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    assert run("init").exit_code == 0
    return run


@pytest.fixture
def meshsec(tmp_path: Path) -> Meshsec:
    """The node ``rescue-1``; its files are in ``tmp_path / "a"``."""
    return node(tmp_path / "a", "rescue-1", "10.77.0.1")


@pytest.fixture
def boat(tmp_path: Path) -> Meshsec:
    """Another node, to be trusted."""
    return node(tmp_path / "boat", "boat", "10.77.0.2")

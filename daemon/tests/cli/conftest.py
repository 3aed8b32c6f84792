"""A node's files, and the command line run on them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli import documented
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


def command_line(config: Path) -> Meshsec:
    """Return a function that runs ``meshsec`` on a node."""

    def run(*arguments: str, input: str | None = None) -> Result:  # noqa: A002 - as click names it
        result = CliRunner().invoke(main, ["--config", str(config), *arguments], input=input)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        documented.check(arguments, result.stdout)
        return result

    return run


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the files of two nodes that are set up, ``a`` (rescue-1) and ``boat``; tests copy them."""
    directory = tmp_path_factory.mktemp("nodes")
    for path, name, ipv4 in (("a", "rescue-1", "10.77.0.1"), ("boat", "boat", "10.77.0.2")):
        config = directory / path / "meshsec.toml"
        config.parent.mkdir()
        config.write_text(CONFIG.format(name=name, ipv4=ipv4))
        assert command_line(config)("init").exit_code == 0
    return directory


@pytest.fixture
def meshsec(nodes: Path, tmp_path: Path) -> Meshsec:
    """Give the command line of the node ``rescue-1``; its files are in ``tmp_path / "a"``."""
    return command_line(Path(shutil.copytree(nodes / "a", tmp_path / "a"), "meshsec.toml"))


@pytest.fixture
def boat(nodes: Path, tmp_path: Path) -> Meshsec:
    """Give the command line of the node ``boat``, which tests trust."""
    return command_line(Path(shutil.copytree(nodes / "boat", tmp_path / "boat"), "meshsec.toml"))

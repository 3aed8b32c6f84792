"""Labs for the scenarios. A failing test leaves captures, logs, SAs, rules and routes in build/artifacts/TEST."""

from collections.abc import Iterator

import pytest

from tests.lab.basics import preloaded
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities
from tests.lab.node.options import Options


@pytest.fixture(scope="session", autouse=True)
def lab_required() -> None:
    """Skip all scenarios on a machine without namespaces or charon."""
    if missing := capabilities.probe().missing():
        pytest.skip(f"scenarios need {', '.join(missing)}")
    preloaded.enable()


@pytest.fixture(scope="session")
def line_lab() -> Iterator[Lab]:
    """Start the mesh a - b - c with IPv4, in which all trust each other. Each test leaves it as it found it."""
    with Lab("line", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all().start()
        yield lab


@pytest.fixture
def mesh(line_lab: Lab) -> Lab:
    """Return the shared line with all links up and all channels protected."""
    line_lab.heal()
    line_lab.wait_full_mesh()
    return line_lab

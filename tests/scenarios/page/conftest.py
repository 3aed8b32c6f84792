"""The mesh of the page's tests, and a browser on one of its nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import Lab
from tests.lab.net.topology import ring
from tests.lab.node.options import Options
from tests.lab.observe.browser import Browser
from tests.scenarios.page.browsing import FOREIGN, address_of

NODES = ["base", "ridge", "ford", "hut", "relay"]


@pytest.fixture(scope="package")
def mesh() -> Iterator[Lab]:
    with Lab("page", ring(NODES), Options(ipv4=True)) as lab:
        lab.set_up({"base": Options(ipv4=True, page={})})
        friends = [lab[name] for name in NODES if name != "relay"]
        lab.trust(*(node.name for node in friends)).start()
        for other in friends[1:]:
            lab["base"].wait_protected(other)
        yield lab


@pytest.fixture(scope="package")
def on_the_ridge(mesh: Lab) -> Iterator[Browser]:
    """Return a browser on the ridge."""
    with Browser(mesh["ridge"].namespace) as browser:
        yield browser


@pytest.fixture
def browser(mesh: Lab, on_the_ridge: Browser) -> Iterator[Browser]:
    """Return that browser with the page of the base, which is opened anew."""
    mesh.heal()
    on_the_ridge.look()
    on_the_ridge.open("about:blank")
    on_the_ridge.open(address_of(mesh["base"]))
    on_the_ridge.wait(f"return document.querySelectorAll('#peers tbody tr').length === {len(NODES) - 2}")
    yield on_the_ridge
    assert on_the_ridge.complaints() == []


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return the directory of a foreign page."""
    (tmp_path / "index.html").write_text(FOREIGN)
    return tmp_path

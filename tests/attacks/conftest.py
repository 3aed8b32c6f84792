"""Attacks run in the same lab as the scenarios; a failing one leaves its traces in build/artifacts/TEST."""

import pytest

from tests.lab.basics import preloaded
from tests.lab.node import capabilities


@pytest.fixture(scope="session", autouse=True)
def ground_is_there() -> None:
    """Without namespaces and charon there is nothing to attack."""
    if missing := capabilities.probe().missing():
        pytest.skip(f"attacks need {', '.join(missing)}")
    preloaded.enable()

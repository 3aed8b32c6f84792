"""Attacks run in the same lab as the scenarios; a failing one leaves its artifacts in build/artifacts/TEST."""

import pytest

from tests.lab.basics import preloaded
from tests.lab.node import capabilities


@pytest.fixture(scope="session", autouse=True)
def lab_required() -> None:
    """Skip all attacks on a machine without namespaces or charon."""
    if missing := capabilities.probe().missing():
        pytest.skip(f"attacks need {', '.join(missing)}")
    preloaded.enable()

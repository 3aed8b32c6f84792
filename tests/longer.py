"""Marks of proofs that take minutes and show a further way of what a shorter one shows: `make test` leaves them out."""

import os

import pytest


def _left_to(target: str, variable: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(variable not in os.environ, reason=f"minutes: `make {target}` runs it")


fleet = _left_to("fleet-more", "MESHSEC_FLEET_ALL")
scenario = _left_to("scenarios-more", "MESHSEC_SCENARIOS_ALL")

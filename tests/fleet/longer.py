"""The mark of proofs that take minutes and show one more way of what a shorter one shows, for `make fleet-more`."""

import os

import pytest

longer = pytest.mark.skipif("MESHSEC_FLEET_ALL" not in os.environ, reason="minutes: `make fleet-more` runs it")

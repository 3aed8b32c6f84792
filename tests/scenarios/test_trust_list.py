"""Revocation: it takes effect on live SAs at once, and a revoked key stays out."""

from collections.abc import Iterator

import pytest

from tests.lab import traffic
from tests.lab.lab import Lab
from tests.lab.node import Options
from tests.lab.topology import line, names
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, wait_arrivals


@pytest.fixture
def pair() -> Iterator[Lab]:
    """a - b - c, protected. Unknown nodes are allowed, so that only the revocation can be what drops."""
    with Lab("revoked", line(names(3)), Options(ipv4=True, policy={"unknown_nodes": "allow"})) as lab:
        yield lab.set_up().trust_all().start()


def test_a_revoked_peer_is_out_at_once_and_its_card_brings_it_back_only_when_that_is_taken_back(pair: Lab) -> None:
    a, c = pair["a"], pair["c"]
    a.wait_protected(c)
    c.wait_protected(a)
    with captured(pair, "revocation") as captures:
        with flow(a, c) as running:
            wait_arrivals(running)
            fingerprint = a.meshsec("peer", "revoke", "c", "--reason", "stolen").stdout.split()[-1]
            a.wait_for("no SA at a", lambda: not a.sas_with(c), 60)
            c.wait_for("c hears of it", lambda: not any(sa.installed for sa in c.sas_with(a)), 60)
        again = a.meshsec("peer", "add", "c", c.card, check=False)
        assert again.returncode == 1
        assert "revoked (c: stolen)" in again.stderr
        assert traffic.send((a.namespace, a.ipv4), c.ipv4, count=10) == 0
        assert_nothing_clear(captures)
        a.meshsec("peer", "unrevoke", fingerprint)
        a.trust(c)
        a.wait_protected(c)
        with flow(a, c) as running:
            wait_arrivals(running)

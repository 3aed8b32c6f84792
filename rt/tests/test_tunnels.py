"""What bench-tunnels asks of the kernel, and what it reads back."""

import json
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from rt.bench_tunnels import read
from rt.tunnels.candidates import CANDIDATES, PLAIN, Candidate, Pair

PAIR = Pair(IPv6Address("fc00::a"), IPv6Address("fc00::b"), "2001:db8:a::/64", "2001:db8:b::/64", 7)


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda one: one.name)
def test_a_candidate_has_one_device_for_all_or_one_for_each_peer(candidate: Candidate) -> None:
    links = [one for one in candidate.for_peer(PAIR) if one.startswith("link add")]
    assert len(links) == (1 if "each" in candidate.name else 0)
    assert bool(candidate.once()) is not bool(links)
    assert "{" not in " ".join([*candidate.once(), *candidate.for_peer(PAIR)])


@pytest.mark.parametrize("candidate", [PLAIN, *CANDIDATES], ids=lambda one: one.name)
def test_both_ends_have_the_same_sas(candidate: Candidate) -> None:
    assert set(candidate.sas(PAIR)) == set(candidate.sas(PAIR.reverse()))
    assert len(set(candidate.sas(PAIR))) == 2
    ways = [one.split(" dir ")[1].split()[0] for one in candidate.policies(PAIR)]
    assert ways == (["out", "in", "fwd"] if candidate.tunnel_mode else ["out", "in"])


def test_half_a_line_of_a_guest_that_was_ended_is_left_out(tmp_path: Path) -> None:
    (taken := tmp_path / "taken").write_text(json.dumps({"key": {}, "value": 1}) + '\n{"key"', encoding="ascii")
    assert list(read(taken)) == [{"key": {}, "value": 1}]
    assert not list(read(tmp_path / "none"))

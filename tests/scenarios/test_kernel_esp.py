"""The other ESP ground: where this machine's kernel has no ESP, claims run once more in a guest whose kernel has it.

There IKE runs between the ``fc..`` addresses themselves, CHILD_SAs are in transport mode, and XFRM policies are the
second wall. Where this machine's kernel has ESP, all scenarios stand on that ground already.
"""

import shutil
from pathlib import Path

import pytest

from tests.lab import ground, guest
from tests.lab.lab import BUILD
from tests.lab.patience import VARIABLE

CLAIMS = (
    "test_protection.py::test_a_relay_sees_ike_and_esp_and_nothing_in_the_clear_from_the_start_on",
    "test_protection.py::test_user_data_sent_before_there_is_an_sa_is_dropped_and_not_leaked",
    "test_protection.py::test_ipv4_user_data_is_protected_too",
    "test_restarts.py::test_meshsecd_killed_and_restarted_renegotiates_nothing",
    "test_restarts.py::test_a_renegotiation_would_have_been_seen",
    "test_restarts.py::test_olsrv2d_killed_and_restarted_keeps_the_sa_and_brings_the_routes_back",
    "test_restarts.py::test_all_daemons_of_a_node_killed_at_once_come_back_to_protection",
    "test_partition.py::test_a_peer_that_returns_within_the_hold_time_finds_its_sa",
    "test_live_commands.py::test_status_tells_route_channel_and_set_up_time_of_each_peer",
)
"""What depends on the ground. Most share one line of nodes, because setting one up takes a minute there."""

PATIENCE = 6
SECONDS = 1500.0


@pytest.mark.timeout(SECONDS + 300)
def test_transport_mode_with_the_kernels_esp_keeps_the_same_claims() -> None:
    if ground.probe().esp == "kernel":
        pytest.skip("this kernel has ESP: every scenario here runs on it")
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    results = BUILD / "artifacts" / "guest"
    shutil.rmtree(results, ignore_errors=True)
    outcome = guest.run_in_guest(_command(results), results, seconds=SECONDS)
    assert outcome.status == 0, f"{outcome.output}\n{outcome.console}"
    assert f"{len(CLAIMS)} passed" in outcome.output, outcome.output


def _command(results: Path) -> str:
    """What failed inside leaves its traces in ``results``, as those of the host do in build/artifacts."""
    claims = " ".join(f"tests/scenarios/{claim}" for claim in CLAIMS)
    inner = f".venv/bin/pytest -p no:cacheprovider --timeout={SECONDS} -rA {claims}"
    return f"""\
export {VARIABLE}={PATIENCE}
.venv/bin/python -c 'from tests.lab import ground; assert ground.probe().esp == "kernel", ground.probe()' || exit 1
rm -rf {results.parent}/test_*
{inner}
status=$?
cp -r {results.parent}/test_* /results/ 2>/dev/null
exit $status
"""

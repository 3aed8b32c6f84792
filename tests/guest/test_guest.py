"""Claims that this machine's kernel may not be able to show hold in the guest, in one boot for each Debian kernel.

There ESP is the kernel's in transport mode, XFRM policies hold user data back too, radios are mac80211's, and the RT
kernel is fully preemptible. What a failed claim left (captures, logs of the daemons, SAs) is in build/artifacts/guest-
KERNEL with the guest's dmesg and console.
"""

import os
import shlex
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.lab.basics.patience import VARIABLE
from tests.lab.basics.places import BUILD
from tests.lab.machines import guest
from tests.lab.radio import medium
from tests.scenarios import guest_claims

PATIENCE = 6
SECONDS = 3600.0
"""Of one boot: twice what the longest takes beside other tests on two processors."""
CLAIMS = 6
"""Number of claims of ``MORE`` in one boot: a file may take twelve minutes."""
REPORT = "report.xml"
ALL = "MESHSEC_GUEST_ALL"
"""Environment variable that `make guest` sets."""
_OPTIONS = f"-v -p no:hypothesispytest --reruns 1 --timeout={SECONDS:g} --durations=0 --junitxml=/results/{REPORT}"
"""pytest's options: without plugins that no claim needs, because each import costs a second there."""


@pytest.fixture(scope="module")
def guest_is_built() -> None:
    """Build the root and the kernels where they are missing, which takes some minutes."""
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    guest.prepare()


@pytest.mark.slow
@pytest.mark.timeout(10 * SECONDS, func_only=True)
# A guest that died, for instance of its emulation, gets another try.
@pytest.mark.flaky(reruns=1, only_rerun="GuestDiedError")
@pytest.mark.parametrize(
    "kernel",
    [
        "rt",
        # In `make test` test_lost_node.py has two nodes protect each other on that kernel.
        pytest.param("generic", marks=pytest.mark.skipif(ALL not in os.environ, reason="another boot: `make guest`")),
    ],
)
def test_the_same_claims_hold_on_debians_kernels(
    kernel: str, guest_is_built: None, subtests: pytest.Subtests, capsys: pytest.CaptureFixture[str]
) -> None:
    boots = [{"rt": guest_claims.RT, "generic": guest_claims.GENERIC}[kernel]]
    if kernel == "rt" and ALL in os.environ:
        more = guest_claims.MORE
        boots += [more[first : first + CLAIMS] for first in range(0, len(more), CLAIMS)]
    cases: dict[str, str] = {}
    for number, claims in enumerate(boots):
        found = _claimed(kernel, claims, f"guest-{kernel}-{number}" if number else f"guest-{kernel}")
        assert found, "nothing ran"
        cases |= found
    if failed := {name: trouble for name, trouble in cases.items() if trouble}:
        # A repeated test inside the guest shares its nodes; this try has a machine of its own.
        with capsys.disabled():
            print("once more, in a guest of their own:", *failed.values(), sep="\n")
        cases |= _claimed(kernel, tuple(failed), f"guest-{kernel}-again")
    for name, trouble in cases.items():
        with subtests.test(msg=name):
            assert not trouble, trouble


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS, func_only=True)
@pytest.mark.flaky(reruns=1, only_rerun="GuestDiedError")
def test_the_air_takes_time_where_time_follows_the_instructions(
    guest_is_built: None, subtests: pytest.Subtests
) -> None:
    claims = guest_claims.AIR + (guest_claims.AIR_MORE if ALL in os.environ else ())
    cases = _claimed("generic", claims, "guest-air", deterministic=True)
    assert len(cases) == len(claims), cases
    for name, trouble in cases.items():
        with subtests.test(msg=name):
            assert not trouble, trouble


def _claimed(kernel: str, claims: tuple[str, ...], label: str, *, deterministic: bool = False) -> dict[str, str]:
    """Return each claim that ran in one boot, with its failure. Raises GuestDiedError."""
    results = BUILD / "artifacts" / label
    shutil.rmtree(results, ignore_errors=True)
    command = _command(kernel, claims, deterministic=deterministic)
    outcome = guest.run_in_guest(command, results, seconds=SECONDS, kernel=kernel, deterministic=deterministic)
    if outcome.status is None:
        raise guest.GuestDiedError(f"{outcome.output}\n{outcome.console}")
    cases = _cases(results / REPORT)
    assert outcome.status == 0 or any(cases.values()), outcome.output
    return cases


def _command(kernel: str, claims: tuple[str, ...], *, deterministic: bool) -> str:
    """Return the command in the guest. A failure saves its artifacts in /results at once: they survive a guest that
    hangs."""
    chosen = shlex.join(f"tests/{claim}" for claim in claims)
    preemptible = {"rt": "PREEMPT_RT", "generic": "PREEMPT_DYNAMIC"}[kernel]
    timing = f"export {medium.DETERMINISTIC_VARIABLE}=1" if deterministic else ""
    return f"""\
uname -v | grep -qw {preemptible} || {{ echo "not the kernel {kernel}"; exit 1; }}
modprobe tun
mkdir -p build/artifacts
mount --bind /results build/artifacts
export {VARIABLE}={PATIENCE}
{timing}
exec .venv/bin/pytest {_OPTIONS} {chosen}
"""


def _cases(report: Path) -> dict[str, str]:
    """Return each claim that ran, with its failure; a skipped one proves nothing and counts as failed."""
    if not report.exists():
        return {}
    found: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314  # written by our own pytest
        troubles = [part for kind in ("failure", "error", "skipped") for part in case.iter(kind)]
        failure = "\n".join(f"{trouble.get('message', '')}\n{trouble.text or ''}" for trouble in troubles)
        path = case.get("classname", "").removeprefix("tests.").replace(".", "/")
        name = f"{path}.py::{case.get('name')}"
        found[name] = failure
    return found

"""A kernel of `make kernel` boots and has what its configuration promises; `make kernel-boot` runs this.

The same command proves the claims of the guest (tests/guest) on it.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.lab.basics.places import BUILD
from tests.lab.machines import guest

SECONDS = 600.0
_COMMAND = """\
set -eu
uname -r
uname -v
modprobe -a esp4 esp6 xfrm_user mac80211_hwsim nf_tables tun
ls /proc/kcore 2>/dev/null || echo no kcore
export PYTHONPATH=kernel-config
.venv/bin/python -m kernelconfig check --json /results/config
"""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_our_own_kernel_boots_fully_preemptible_with_everything_that_is_wanted() -> None:
    tree = os.environ.get(guest.KERNEL_VARIABLE)
    if tree is None:
        pytest.skip("no kernel of our own is chosen: make kernel-boot KERNEL=its .deb")
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    (configuration,) = Path(tree).glob("boot/config-*")
    results = BUILD / "artifacts" / "own-kernel"
    results.mkdir(parents=True, exist_ok=True)
    shutil.copy(configuration, results / "config")
    outcome = guest.run_in_guest(_COMMAND, results, seconds=SECONDS)
    assert outcome.status == 0, f"{outcome.output}\n{outcome.console}"
    release, version, kcore, *verdict = outcome.output.splitlines()
    assert release == configuration.name.removeprefix("config-")
    assert "PREEMPT_RT" in version
    assert kcore == "no kcore"
    assert json.loads("\n".join(verdict))["findings"] == []

"""The kernel forgets SAs and policies, and a kernel that has none is no failure."""

import subprocess

from meshsec.adapters.kernel import flush
from namespaces import needs_root

pytestmark = needs_root


def xfrm(kind: str) -> str:
    return subprocess.run(["ip", "xfrm", kind], check=True, capture_output=True, text=True).stdout


def test_policies_are_gone_and_none_is_no_failure(inside: str) -> None:
    flush.flush_xfrm()
    subprocess.run(["ip", "xfrm", "policy", "add", "src", "fc00::a", "dst", "fc00::b", "dir", "out"], check=True)
    assert "fc00::a" in xfrm("policy")
    flush.flush_xfrm()
    assert xfrm("policy") == ""


def test_what_is_no_radio_stays_up(inside: str) -> None:
    assert flush.leave_meshes(["*"]) == []
    shown = subprocess.run(["ip", "link", "show", "lo"], check=True, capture_output=True, text=True).stdout
    assert "UP" in shown

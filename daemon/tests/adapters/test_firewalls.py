"""Other programs' tables, as the kernel has them."""

import subprocess
import sys
from collections.abc import Callable

from namespaces import ip, needs_root, new_namespace

__all__ = ["new_namespace"]

RULES = """
table inet filter {
    chain input { type filter hook input priority 0; policy drop; iifname "eth0" accept; }
    chain forward { type filter hook forward priority 0; policy accept; }
}
table inet meshsec { chain input { type filter hook input priority 0; policy drop; }; }
"""
PRINT = "from meshsec.adapters.kernel import firewalls; print(firewalls.closed())"


@needs_root
def test_closed_tables_are_read_with_their_text(new_namespace: Callable[[], str]) -> None:
    name = new_namespace()
    subprocess.run(["ip", "netns", "exec", name, "nft", "-f", "-"], input=RULES, text=True, check=True)
    found = ip("netns", "exec", name, sys.executable, "-c", PRINT)
    assert "Closed(family='inet', name='filter', hooks=('input',))" in found
    assert 'iifname "eth0" accept' in found
    assert "meshsec" not in found


@needs_root
def test_without_tables_or_the_right_to_read_them_nothing_is_closed(new_namespace: Callable[[], str]) -> None:
    name = new_namespace()
    assert ip("netns", "exec", name, sys.executable, "-c", PRINT) == "{}\n"
    unprivileged = ("setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", PRINT)
    assert ip("netns", "exec", name, *unprivileged) == "{}\n"

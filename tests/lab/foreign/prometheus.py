"""Prometheus's promtool, which judges metrics and rules. `make setup` unpacks it: Debian's package starts a server."""

import subprocess

from tests.lab.basics.places import BUILD

PROMTOOL = BUILD / "prometheus" / "usr" / "bin" / "promtool"
_SECONDS = 60.0


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    argv = [str(PROMTOOL), *arguments]
    return subprocess.run(argv, input=stdin, text=True, capture_output=True, check=False, timeout=_SECONDS)

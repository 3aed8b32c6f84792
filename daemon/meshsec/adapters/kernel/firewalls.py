"""The tables of other programs in nftables, for ``meshsec doctor``; root alone may read them."""

import json
import subprocess

from meshsec.core.explain import firewall_doctor
from meshsec.core.explain.firewall_doctor import Closed

_SECONDS = 10.0


def closed() -> dict[Closed, str]:
    """Return the tables that drop what they do not accept, with their text. Nothing where they cannot be read."""
    try:
        listed = json.loads(_nft("--json", "list", "chains"))["nftables"]
        return {one: _nft("list", "table", one.family, one.name) for one in firewall_doctor.closed(listed)}
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def _nft(*arguments: str) -> str:
    argv = ["nft", "--terse", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout

"""Whether this node does what it is for, as `meshsec status` says it."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from meshsec_update.machine import RefusedError


def problems() -> list[str]:
    """Return what this node lacks. A peer that cannot be reached is not its fault."""
    try:
        return lacks(status())
    except RefusedError as error:
        return [str(error)]


def status() -> Mapping[str, Any]:
    """Return what `meshsec status` says; raises RefusedError when it says nothing."""
    try:
        done = subprocess.run(
            ["meshsec", "status", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"meshsec status: {error}") from None
    try:
        view: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RefusedError(f"meshsec status: {said[-1] if said else f'status {done.returncode}'}") from None
    return view


def lacks(status: Mapping[str, Any]) -> list[str]:
    """Return what a status says against its node."""
    parts = {"the IKE daemon": status["ike_daemon"], "the routing daemon": status["routing_daemon"]}
    if status["overlay"] is not None:
        parts["the overlay"] = status["overlay"]
    found = [f"{name} is away: {part['reason']}" for name, part in parts.items() if not part["up"]]
    return found if status["rules_stand"] else [*found, "the fail-closed rules are not in force"]

"""How much longer than usual the tests wait: 1 on the host, more in an emulated guest. Deadlines prove liveness, not
speed."""

import os

VARIABLE = "MESHSEC_LAB_PATIENCE"
_FACTOR = float(os.environ.get(VARIABLE, "1"))


def patient(seconds: float) -> float:
    """Return how long to wait on this machine for what takes at most ``seconds`` on an ordinary one."""
    return seconds * _FACTOR

"""How much longer than usual to wait: 1 on the host, more in an emulated guest. Deadlines prove liveness, not speed."""

import os

VARIABLE = "MESHSEC_LAB_PATIENCE"
_FACTOR = float(os.environ.get(VARIABLE, "1"))


def patient(seconds: float) -> float:
    """``seconds`` as this ground needs them."""
    return seconds * _FACTOR

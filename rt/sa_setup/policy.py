"""The policy of nodes whose set-ups are measured."""

import os
from collections.abc import Mapping

from meshsec.adapters.files import config_file
from tests.lab.node.options import PolicyValue

POLICY: Mapping[str, PolicyValue] = {
    "backoff_first": 0.1,
    "initiate_timeout": 60,
    "takeover_delay": 60,
    "initiate_rate": 100,
    "bypass": [{"prefix": "192.0.2.0/24", "reason": "stream and round trips beside the mesh"}],
}
"""Set-ups are measured and not the patience between them, so the other end never takes over."""


def allow_pacing() -> None:
    """Let the nodes that this program starts take the constants of pacing from their policy."""
    os.environ[config_file.LAB_PACING] = config_file.IN_LAB

"""The policies of nodes whose set-ups are measured."""

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
PAPERS, OURS = "paper-2007", "ours"
"""Suites: that of the paper (policies/lab/paper-2007.toml: 3DES, SHA-1, MODP-1536), and what two nodes choose by the
default policy."""
SUITES: Mapping[str, Mapping[str, PolicyValue]] = {PAPERS: {"profile": PAPERS}, OURS: {}}
"""What each changes in the policy."""


def allow_lab_policies() -> None:
    """Let the nodes that this program starts take the constants of pacing and the paper's algorithms."""
    os.environ[config_file.LAB_PACING] = config_file.IN_LAB
    os.environ[config_file.LAB] = config_file.IN_LAB

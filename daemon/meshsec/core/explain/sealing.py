"""Whether this node's keys are sealed by the machine's TPM: for ``doctor``."""

from collections.abc import Sequence

from meshsec.core.explain.findings import Check, Level

NAME = "sealed keys"


def checks(*, is_sealed: bool, problem: str, has_tpm: bool, plain: Sequence[str]) -> list[Check]:
    """Judge how the keys are kept; nothing is said on a machine without a TPM.

    ``problem`` is why sealed keys cannot be read, and ``plain`` are the secrets that are ordinary files.
    """
    if problem:
        return [Check(NAME, Level.FAIL, problem, "as it says; the cause may be another TPM, or one that is off")]
    if is_sealed and plain:
        found = f"{', '.join(plain)}: not sealed, so whoever copies the disk has it"
        return [Check(NAME, Level.WARN, found, "meshsec key seal")]
    if is_sealed:
        return [Check(NAME, Level.OK, "only this machine's TPM opens them: a copy of the disk is worth nothing")]
    if has_tpm:
        found = "the machine has a TPM, and the keys are not sealed by it: whoever copies the disk has them"
        return [Check(NAME, Level.OK, found, "meshsec backup FILE, then meshsec key seal")]
    return []

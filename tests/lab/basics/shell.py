"""Runs a program to its end; the error of a failed program contains its output."""

import subprocess
from collections.abc import Mapping, Sequence

from tests.lab.basics.patience import patient


class CommandError(Exception):
    """A program ended with a status other than 0."""

    def __init__(self, result: subprocess.CompletedProcess[str]) -> None:
        super().__init__(
            f"{' '.join(result.args)}: status {result.returncode}\n{result.stdout}{result.stderr}".rstrip()
        )
        self.result = result


def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run ``argv`` for at most ``timeout`` seconds. Raises CommandError when ``check`` and the status is not 0."""
    result = subprocess.run(
        argv, input=stdin, env=env, timeout=patient(timeout), text=True, capture_output=True, check=False
    )
    return checked(result) if check else result


def checked(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Return the result of a program whose status is 0. Raises CommandError for another status."""
    if result.returncode:
        raise CommandError(result)
    return result

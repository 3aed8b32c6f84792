"""A failure is seen at once, and a process that ends by itself is waited for."""

import subprocess
import time

import pytest

from children import child


def test_a_failure_ends_a_process_that_goes_on_for_ever() -> None:
    begin = time.monotonic()
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(AssertionError, match="the reason"), child(process):
        raise AssertionError("the reason")
    assert process.returncode == -9
    assert time.monotonic() - begin < 30


def test_without_a_failure_its_end_is_waited_for() -> None:
    with child(subprocess.Popen(["sh", "-c", "sleep 0.2; exit 3"])) as process:
        pass
    assert process.returncode == 3

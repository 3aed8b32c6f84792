"""A process that keeps its memory private leaves no core dump, and neither do the programs it starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import os, resource, signal, subprocess, sys
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.chdir(sys.argv[1])
{private}
if sys.argv[2] == "child":
    done = subprocess.run(["/bin/sh", "-c", "kill -ABRT $$"])
    os._exit(done.returncode + 200)
os.kill(os.getpid(), signal.SIGABRT)
"""
PRIVATE = "from meshsec.adapters.files.secrecy import keep_private; keep_private()"

needs_plain_cores = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii").startswith("core"),
    reason="the control needs core files in the working directory",
)


def cores(directory: Path, private: str, victim: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", RUN.format(private=private), str(directory), victim], check=False)
    assert done.returncode == (-signal.SIGABRT if victim == "itself" else 200 - signal.SIGABRT)
    return [path.name for path in directory.iterdir()]


@needs_plain_cores
@pytest.mark.parametrize("victim", ["itself", "child"])
def test_no_core_is_left(victim: str, tmp_path: Path) -> None:
    """Without the setting the same death leaves a core."""
    assert cores(tmp_path, PRIVATE, victim) == []
    assert len(cores(tmp_path, "", victim)) == 1


def test_a_lower_limit_is_no_obstacle() -> None:
    code = f"import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); {PRIVATE}; print('went on')"
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "went on\n"
    )

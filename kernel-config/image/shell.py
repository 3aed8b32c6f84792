"""Runs the tools that build the image, and says how long each step took."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click


class StepError(Exception):
    """A tool failed; the message has its name, its status and the end of what it said."""


def run(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Return what ``argv`` writes to its standard output; raises StepError when it fails or is not installed."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise StepError(f"{words[0]}: not installed; `tools/setup image` installs it") from None
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise StepError(f"{' '.join(words[:6])}...: status {done.returncode}\n{tail}")
    return done.stdout


def inside(root: Path, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> str:
    """Run ``argv`` in ``root``, with /proc and /dev in a mount name space that ends with it."""
    script = 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; root=$1; shift; exec chroot "$root" "$@"'
    return run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script, "sh", root, *argv],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", **(env or {})},
    )


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is being done, and how long it took."""
    click.echo(f"image: {what} ...", nl=False)
    begin = time.monotonic()
    try:
        yield
    except BaseException:
        click.echo(" failed")
        raise
    click.echo(f" {time.monotonic() - begin:.0f} s")

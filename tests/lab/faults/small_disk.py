"""A directory on a small disk of its own, which a test can fill."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab.basics import shell


@contextmanager
def small(directory: Path) -> Iterator[Callable[[], None]]:
    """Mount a small disk on the directory and yield a function that fills it. The disk is unmounted afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    shell.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "none", str(directory)])
    try:
        yield lambda: _fill(directory)
    finally:
        shell.run(["umount", "--lazy", str(directory)])


def _fill(directory: Path) -> None:
    with suppress(OSError), (directory / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass

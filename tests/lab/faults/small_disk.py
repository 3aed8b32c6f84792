"""A directory on a disk of its own that is small, and then full."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab.basics import shell


@contextmanager
def small(directory: Path) -> Iterator[Callable[[], None]]:
    """The directory on a disk of its own, which the function given leaves without room; all is gone afterwards."""
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

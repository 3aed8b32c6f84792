"""Where frames come from: a monitor interface, or a capture file."""

import io
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from meshsec.adapters.radio.monitor import Monitor, MonitorError
from meshsec.core.air.capture import CaptureDecoder, CaptureFileError, Packet

_CHUNK = 1 << 16
"""Bytes that are read from a file at once."""


class Interface:
    """A monitor interface; ``seconds`` is how long to listen, None until somebody ends it."""

    live = True

    def __init__(self, interface: str, seconds: float | None) -> None:
        self.interface: str | None = interface
        self.file: str | None = None
        self.cut: str | None = None
        """Why the capture ended too early."""
        self.lost = 0
        self.size = self.done = 0
        self._seconds = seconds
        self._taken = 0

    def batches(self) -> Iterator[Iterator[Packet]]:
        """Yield the packets in parts; between them the caller may show what it has.

        Raises ClickException when nothing can be heard.
        """
        end = None if self._seconds is None else time.monotonic() + self._seconds
        try:
            monitor = Monitor(self.interface or "")
        except MonitorError as error:
            raise click.ClickException(str(error)) from error
        with monitor:
            while not self.cut and (end is None or time.monotonic() < end):
                yield self._heard(monitor)
                self.lost = monitor.lost()

    def _heard(self, monitor: Monitor) -> Iterator[Packet]:
        """Yield what came; what was seen before the interface went is kept."""
        try:
            for packet in monitor.packets():
                self._taken += 1
                yield packet
        except MonitorError as error:
            if not self._taken:
                raise click.ClickException(str(error)) from error
            self.cut = str(error)


class File:
    """A capture file, or a stream of that form on standard input, which is called ``-``."""

    def __init__(self, path: Path) -> None:
        self._standard_input = path == Path("-")
        self._path = path
        self._taken = 0
        self.interface: str | None = None
        self.file: str | None = "standard input" if self._standard_input else str(path)
        self.cut: str | None = None
        self.lost = 0
        self.size = 0 if self._standard_input else _size(path)
        """Bytes; 0 where there is no end."""
        self.live = not self.size
        self.done = 0
        """Bytes that were read."""

    def batches(self) -> Iterator[Iterator[Packet]]:
        """Yield the packets in parts. Raises ClickException when not one is whole."""
        decoder = CaptureDecoder(str(self.file))
        try:
            with self._open() as file:
                while not self.cut and (content := file.read(_CHUNK)):
                    yield self._whole(decoder.feed(content))
                    self.done += len(content)
            if not self.cut:
                decoder.finish()
        except OSError as error:
            raise click.ClickException(f"{self.file}: {error.strerror}") from error
        except CaptureFileError as error:
            self._end(error)

    def _open(self) -> io.FileIO:
        """Open it, standard input without its name: that may be a pipe of somebody else's."""
        return io.FileIO(0, closefd=False) if self._standard_input else io.FileIO(self._path)

    def _whole(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        """Yield packets up to the first fault."""
        try:
            for packet in packets:
                self._taken += 1
                yield packet
        except CaptureFileError as error:
            self._end(error)

    def _end(self, error: CaptureFileError) -> None:
        """Keep what was whole before the fault. Raises ClickException when nothing was."""
        if not self._taken:
            raise click.ClickException(str(error)) from error
        self.cut = str(error)


def _size(path: Path) -> int:
    """Return the bytes of a regular file; 0 for anything else, and for what cannot be opened either."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0


Source = Interface | File

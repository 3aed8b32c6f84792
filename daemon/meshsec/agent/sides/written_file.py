"""A file that a side writes for other programs, and why it could not."""

import asyncio
import logging
from pathlib import Path

from meshsec import files

_MODE = 0o644

_log = logging.getLogger(__name__)


class WrittenFile:
    """One file that all may read. It is written as a whole."""

    def __init__(self, path: Path, what: str) -> None:
        """``what`` names in the log what the file has."""
        self.path, self._what = path, what
        self.problem = ""
        """Why the file is not what it ought to be; empty: it is."""

    async def write(self, text: str) -> bool:
        """Write the file. Return False, and log each new reason once, if that fails."""
        try:
            files.make_directory(self.path.parent)
            await asyncio.to_thread(files.write, self.path, text.encode(), _MODE)
        except files.FileError as error:
            if str(error) != self.problem:
                _log.warning("%s: %s", self._what, error)
            self.problem = str(error)
        else:
            self.problem = ""
        return not self.problem

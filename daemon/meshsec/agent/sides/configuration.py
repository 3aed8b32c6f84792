"""Find whether the configuration file has changed since meshsecd read it."""

import asyncio
from pathlib import Path

from meshsec.adapters.files import config_file
from meshsec.core.config.settings import Settings


class ConfigurationFile:
    """meshsec.toml, compared with the settings that meshsecd was started with."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._path, self._settings = path, settings
        self.problem = ""
        """Why the file is not in force; empty if it is."""
        self.changed = False
        """Whether the file is good and differs, so that it takes effect after a restart."""

    async def poll(self) -> None:
        """Read the file again and compare it."""
        self.problem, self.changed = "", False
        try:
            settings = await asyncio.to_thread(config_file.load, self._path)
        except config_file.ConfigError as error:
            self.problem = str(error)
            return
        if settings != self._settings:
            self.changed = True
            self.problem = f"{self._path} was changed: `meshsec up` puts it into force (SAs and rules stay)"

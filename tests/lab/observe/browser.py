"""A real browser in a namespace: Debian's Chromium without a screen, driven by WebDriver."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

from tests.lab.basics.patience import patient
from tests.lab.basics.programs import ProgramMissingError, find
from tests.lab.net import namespaces

T = TypeVar("T")


class Browser:
    """One browser. Everything that it does, and everything that it is told, happens in a thread of the namespace."""

    def __init__(self, namespace: str, *arguments: str) -> None:
        """``arguments``: Chromium's, without the dashes."""
        self._arguments = arguments
        self._thread = ThreadPoolExecutor(1, initializer=namespaces.enter, initargs=(namespace,))

    def __enter__(self) -> Self:
        self._driver = self._thread.submit(_started, self._arguments).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(lambda driver: driver.quit())
        self._thread.shutdown()

    def do(self, what: Callable[[Chrome], T]) -> T:
        """Return the result of ``what``, called with the driver."""
        return self._thread.submit(what, self._driver).result()

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self.do(lambda driver: driver.get(url))

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script in the page returns."""
        return self.do(lambda driver: driver.execute_script(script, *arguments))

    def wait(self, script: str, *arguments: object, seconds: float = 30.0) -> Any:
        """Wait until a script in the page returns something that is true, and return that."""
        return self.do(
            lambda driver: WebDriverWait(driver, patient(seconds), 0.05).until(
                lambda there: there.execute_script(script, *arguments), f"never true: {script}"
            )
        )

    def complaints(self) -> list[str]:
        """Return what the browser has reported since the last call: errors, and what the page's policy forbade."""
        entries = self.do(lambda driver: driver.get_log("browser"))  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries]

    def received(self) -> int:
        """Return the bytes of all answers since the last call, as they came over the wire, the unfinished ones too."""
        sizes: Counter[str] = Counter()
        for message in self._traffic():
            if message["method"] == "Network.dataReceived":
                sizes[message["params"]["requestId"]] += message["params"]["dataLength"]
            elif message["method"] == "Network.loadingFinished":
                sizes[message["params"]["requestId"]] = int(message["params"]["encodedDataLength"])
        return sizes.total()

    def statuses(self, address: str) -> list[tuple[str, int]]:
        """Return how a server answered since the last call: method and status, also of what no page was told."""
        asked, said = {}, {}
        for message in self._traffic():
            parameters = message["params"]
            if message["method"] == "Network.requestWillBeSent" and parameters["request"]["url"].startswith(address):
                asked[parameters["requestId"]] = parameters["request"]["method"]
            elif message["method"] == "Network.responseReceivedExtraInfo":
                said[parameters["requestId"]] = parameters["statusCode"]
        return sorted((method, said.get(number, 0)) for number, method in asked.items())

    def _traffic(self) -> list[dict[str, Any]]:
        entries = self.do(lambda driver: driver.get_log("performance"))  # type: ignore[no-untyped-call]
        return [json.loads(entry["message"])["message"] for entry in entries]

    def look(self, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """Choose the colours that the reader prefers, who wants no motion, and the size of the screen."""
        features = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        chosen = [{"name": name, "value": value} for name, value in features.items()]
        self._command("Emulation.setEmulatedMedia", {"features": chosen})
        self._command("Emulation.setDeviceMetricsOverride", size)

    def picture(self, path: Path) -> None:
        """Save what is on the screen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.do(lambda driver: driver.save_screenshot(str(path)))

    def _command(self, name: str, parameters: dict[str, Any]) -> None:
        self.do(lambda driver: driver.execute_cdp_cmd(name, parameters))


def _started(arguments: Sequence[str]) -> Chrome:
    driver, browser = find("chromedriver"), find("chromium")
    if not driver or not browser:
        raise ProgramMissingError("chromium and chromium-driver: `tools/setup browser` installs them")
    options = ChromeOptions()
    options.binary_location = browser
    usual = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars")
    for argument in (*usual, *arguments):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options, Service(driver))

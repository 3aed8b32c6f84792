"""Streaming on demand, figure 5 of the paper of 2007: files that were encoded before are served to several viewers.

nginx serves, as most sites do; curl takes the place of the viewers' players. ``viewers`` fetch at the rate of the
video, as players do that have filled their buffers. ``downloads`` fetch as fast as they can, and are never served
enough: so the server, which has nothing to encode, is a load at all.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rt.loads.place import Place
from rt.measure.results import WHOLE_RUNS
from tests.lab.basics.shell import run

VIDEO_RATE = 500_000
"""Octets of the video each second: 4 Mbit/s, as of the live stream."""
VIEWERS = {"viewers": 8, "downloads": 4}
"""How many there are of each kind."""
PORT = 8080
START_SECONDS = 60.0
_VIDEO_SECONDS = 20
_PROGRAMS = ("nginx", "curl", "ffmpeg")
_BEGUN = 100_000
"""Octets after which the viewers are served."""


def missing() -> str | None:
    """Return what is to be done when a program is not there, or None."""
    lacking = [program for program in _PROGRAMS if not shutil.which(program, path=_PATH)]
    return f"{', '.join(lacking)}: not there; `make bench-sa-setup` gets it" if lacking else None


@dataclass(frozen=True)
class Viewers:
    """Where those who watch are."""

    place: Place
    interface: str
    """The one that the videos come in at."""


class Served:
    """What comes in at the viewers' interface."""

    def __init__(self, namespace: str, interface: str, per_second: float) -> None:
        self._argv = ["ip", "netns", "exec", namespace, "cat", f"/sys/class/net/{interface}/statistics/rx_bytes"]
        self.per_second = per_second

    def count(self) -> float:
        """Return the octets since the interface was made; those of the set-ups are few beside a video's."""
        return float(run(self._argv).stdout)


@contextmanager
def on_demand(
    kind: str, server: Place, address: str, viewers: Viewers, seconds: float = START_SECONDS
) -> Iterator[Served]:
    """Serve videos at ``address`` while the context is open; the viewers fetch there.

    Raises TimeoutError if nothing is served, and MeasurementError if nginx or a viewer ends by itself.
    """
    count = VIEWERS[kind]
    paced = kind == "viewers"
    video = _video()
    with tempfile.TemporaryDirectory(prefix="on-demand-") as directory, ExitStack() as stack:
        configuration = Path(directory, "nginx.conf")
        configuration.write_text(_configuration(directory, video.parent, address), encoding="utf-8")
        argv = [_found("nginx"), "-e", "stderr", "-p", directory, "-c", str(configuration)]
        stack.enter_context(server.running(argv))
        served = Served(viewers.place.namespace, viewers.interface, count * VIDEO_RATE if paced else 0.0)
        before = served.count()
        # One curl plays the video again and again: the numbers are for curl alone.
        url = f"http://{address}:{PORT}/{video.name}?[1-100000]"
        pace = ["--limit-rate", str(VIDEO_RATE)] if paced else []
        patience = ["--retry", "100", "--retry-connrefused", "--retry-delay", "1"]
        for _ in range(count):
            stack.enter_context(
                viewers.place.running(
                    ["curl", "--silent", "--show-error", *patience, *pace, "--output", "/dev/null", url]
                )
            )
        end = time.monotonic() + seconds
        while served.count() < before + _BEGUN * count:
            if time.monotonic() > end:
                raise TimeoutError(f"the videos on demand did not begin within {seconds:g} s")
            time.sleep(0.05)
        yield served


def _video() -> Path:
    """Return the file, which is encoded when it is first wanted. Quick runs take the same one."""
    path = WHOLE_RUNS / "on-demand" / f"video-{_VIDEO_SECONDS}.mp4"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        source = f"testsrc2=size=1280x720:rate=60:duration={_VIDEO_SECONDS}"
        argv = ["ffmpeg", "-hide_banner", "-nostats", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source]
        argv += ["-an", "-c:v", "libx264", "-preset", "ultrafast", "-b:v", str(8 * VIDEO_RATE), "-f", "mp4"]
        subprocess.run([*argv, str(unfinished)], stdin=subprocess.DEVNULL, check=True, timeout=600)
        unfinished.replace(path)
    return path


def _configuration(directory: str, videos: Path, address: str) -> str:
    """Return one worker's nginx.conf, which writes nothing outside of ``directory``."""
    temporary = "".join(
        f"{kind}_temp_path {directory}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""\
daemon off;
user root;
worker_processes 1;
pid {directory}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    {temporary}
    sendfile on;
    tcp_nopush on;
    server {{
        listen {address}:{PORT};
        root {videos};
    }}
}}
"""


def _found(program: str) -> str:
    return shutil.which(program, path=_PATH) or program


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""nginx is where only root looks."""

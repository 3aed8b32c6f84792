"""A live video encoder that streams to another node: ffmpeg, x264, 720p60, RTP."""

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from types import TracebackType
from typing import Self

FRAMES_PER_SECOND = 60

PRESETS = {"keeping": "ultrafast", "saturating": "veryslow"}
"""x264's presets: on one core the first keeps up with the camera, the second takes all there is and falls behind."""


@dataclass(frozen=True)
class Place:
    """Where the encoder runs."""

    namespace: str
    cores: frozenset[int]
    nice: int


def missing() -> str | None:
    """Return what is to be done when there is no encoder, or None."""
    if shutil.which("ffmpeg"):
        return None
    return "ffmpeg is not installed: `tools/setup bench` installs it"


class Encoder:
    """The encoder while the context is open."""

    def __init__(self, kind: str, place: Place, target: tuple[str, int]) -> None:
        """``kind`` is one of ``PRESETS``; ``target`` the IPv4 address and the port that the stream goes to."""
        self._argv = _command(kind, *target)
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", self._place.namespace, *self._argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=self._place_itself,  # noqa: PLW1509  # only system calls, before exec
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        ended_by_itself = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        if ended_by_itself and error is None:
            raise RuntimeError(f"the encoder ended by itself: {said.decode(errors='replace').strip()}")

    def _place_itself(self) -> None:
        os.sched_setaffinity(0, self._place.cores)
        os.setpriority(os.PRIO_PROCESS, 0, self._place.nice)


def _command(kind: str, address: str, port: int) -> list[str]:
    source = f"testsrc2=size=1280x720:rate={FRAMES_PER_SECOND}"
    return [
        *("ffmpeg", "-hide_banner", "-nostats", "-loglevel", "error", "-re", "-f", "lavfi", "-i", source),
        *("-an", "-c:v", "libx264", "-preset", PRESETS[kind], "-tune", "zerolatency", "-b:v", "4M", "-g", "60"),
        *("-f", "rtp", f"rtp://{address}:{port}?pkt_size=1300"),
    ]

"""Live streaming, figure 6 of the paper of 2007: ffmpeg encodes a camera's video (x264, 720p60) and sends it (RTP)."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from rt.loads.place import Place
from rt.loads.rtp import RtpSink

FRAMES_PER_SECOND = 60
SETTLE_FRAMES = 30
"""Frames of the stream after which it runs."""
START_SECONDS = 60.0
"""For these frames: a starving encoder needs long for them."""

PRESETS = {"keeping": "ultrafast", "saturating": "veryslow"}
"""x264's presets: on one core the first keeps up with the camera, the second takes all there is and falls behind."""


def missing() -> str | None:
    """Return what is to be done when there is no encoder, or None."""
    if shutil.which("ffmpeg"):
        return None
    return "ffmpeg is not there: `make bench-sa-setup` gets it"


@contextmanager
def live(kind: str, place: Place, viewer: tuple[str, str, int]) -> Iterator[RtpSink]:
    """Stream while the context is open. ``viewer``: the namespace, the IPv4 address and the port of who watches.

    Raises TimeoutError if the stream does not begin, and MeasurementError if the encoder ends by itself.
    """
    namespace, address, port = viewer
    with RtpSink(namespace, address, port) as sink, place.running(_command(kind, address, port)):
        sink.wait_frames(SETTLE_FRAMES, START_SECONDS)
        yield sink


def _command(kind: str, address: str, port: int) -> list[str]:
    source = f"testsrc2=size=1280x720:rate={FRAMES_PER_SECOND}"
    return [
        *("ffmpeg", "-hide_banner", "-nostats", "-loglevel", "error", "-re", "-f", "lavfi", "-i", source),
        *("-an", "-c:v", "libx264", "-preset", PRESETS[kind], "-tune", "zerolatency", "-b:v", "4M", "-g", "60"),
        *("-f", "rtp", f"rtp://{address}:{port}?pkt_size=1300"),
    ]

"""Find by trial whether this kernel can do ESP for IPv6 with an AEAD."""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import randbelow

from meshsec.core.values.model import EspBackend

TUN_DEVICE = Path("/dev/net/tun")

_DISCARD = ("100::1", "100::2")
"""Addresses of the discard prefix (RFC 6666), so that the test state cannot carry anybody's traffic."""

_TIMEOUT = 60.0
"""Deadline in seconds. The first use loads kernel modules and tests their algorithms, which is slow on some machines.
"""


@dataclass(frozen=True, slots=True)
class EspProbe:
    """Which backend does ESP here, and why."""

    backend: EspBackend
    reason: str
    kernel_problem: str = ""
    """Why the kernel cannot do ESP; empty if it can."""
    tun_problem: str = ""
    """Why no TUN device can be made, which ESP in user space needs; empty if it can."""

    @property
    def problem(self) -> str:
        """Why ESP cannot run on the chosen backend; empty if it can."""
        return self.kernel_problem if self.backend is EspBackend.KERNEL else self.tun_problem

    def forced(self, backend: EspBackend) -> "EspProbe":
        """Return the same findings with the backend that the configuration chose."""
        return replace(self, backend=backend, reason="[ike] in the configuration says so")


async def probe() -> EspProbe:
    """Add and delete one temporary XFRM state with AES-GCM (RFC 4106). Needs CAP_NET_ADMIN."""
    selector = ["src", _DISCARD[0], "dst", _DISCARD[1], "proto", "esp", "spi", hex(0x1000 + randbelow(0xF000_0000))]
    algorithm = ["aead", "rfc4106(gcm(aes))", "0x" + "00" * 36, "128"]
    refusal = await _xfrm_state("add", *selector, "mode", "transport", *algorithm)
    if refusal:
        problem = f"the kernel refuses an ESP state with AES-GCM: {refusal}"
        return EspProbe(EspBackend.LIBIPSEC, problem, problem, _tun_problem())
    await _xfrm_state("delete", *selector)
    return EspProbe(EspBackend.KERNEL, "the kernel accepts an ESP state with AES-GCM", "", _tun_problem())


async def _xfrm_state(*arguments: str) -> str:
    """Run ``ip xfrm state`` and return why it failed; empty if it worked."""
    try:
        process = await asyncio.create_subprocess_exec(
            "ip", "xfrm", "state", *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        return f"ip: {error.strerror}"
    try:
        async with asyncio.timeout(_TIMEOUT):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"no answer within {_TIMEOUT:.0f} s"
    return "" if process.returncode == 0 else errors.decode("utf-8", "replace").strip() or "no reason given"


def _tun_problem() -> str:
    try:
        os.close(os.open(TUN_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"{TUN_DEVICE}: {error.strerror}"
    return ""

"""Read from the kernel what this machine's processors can do."""

from pathlib import Path

from meshsec.core.policy import esp_rank

_CPUINFO = Path("/proc/cpuinfo")


def has_aes() -> bool | None:
    """Return whether all processors have AES-GCM instructions; None if the kernel does not say."""
    try:
        return esp_rank.has_aes(_CPUINFO.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None

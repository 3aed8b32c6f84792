"""Keys of input devices by the names of linux/input-event-codes.h, and how long one has been held.

A button at a GPIO line is such a key, too: the kernel's driver gpio-keys makes it one (ADR 0101).
"""

from dataclasses import dataclass

CODE_MAX = 0x2FF
"""KEY_MAX."""
_SINGLE = {
    "KEY_ESC": 1,
    "KEY_SYSRQ": 99,
    "KEY_DELETE": 111,
    "KEY_POWER": 116,
    "KEY_PAUSE": 119,
    "KEY_STOP": 128,
    "KEY_SETUP": 141,
    "KEY_SLEEP": 142,
    "KEY_WAKEUP": 143,
    "KEY_PROG1": 148,
    "KEY_PROG2": 149,
    "KEY_PROG3": 202,
    "KEY_PROG4": 203,
    "KEY_CANCEL": 223,
    "KEY_RFKILL": 247,
    "KEY_VENDOR": 360,
    "KEY_RESTART": 408,
    "KEY_WPS_BUTTON": 529,
}
CODES = {
    **_SINGLE,
    **{f"KEY_F{number}": 58 + number for number in range(1, 11)},
    "KEY_F11": 87,
    "KEY_F12": 88,
    **{f"KEY_F{number}": 170 + number for number in range(13, 25)},
    **{f"BTN_{number}": 256 + number for number in range(10)},
}
"""The keys that buttons and keyboards have for such a purpose."""
_RELEASED = 0


@dataclass(slots=True)
class HeldKey:
    """A key that must be held, so that nobody destroys a node by a touch."""

    code: int
    seconds: float
    _since: float | None = None

    def handle(self, code: int, value: int, now: float) -> None:
        """Take an event of the kernel: 0 is a release, 1 a press, 2 a repetition."""
        if code != self.code:
            return
        if value == _RELEASED:
            self._since = None
        elif self._since is None:
            self._since = now

    def left(self, now: float) -> float | None:
        """Return the seconds until it has been held for long enough; None while it is not held."""
        return None if self._since is None else max(0.0, self._since + self.seconds - now)

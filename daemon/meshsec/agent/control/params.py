"""The parameters of the control socket's methods."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from meshsec.adapters.sockets.control import ControlError

Params = Mapping[str, Any]
Method = Callable[[Params], Awaitable[Mapping[str, Any]]]


def text(params: Params, name: str) -> str:
    """Return a parameter that must be there. Raises ``ControlError``."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise ControlError("bad_params", f"{name}: {value!r} is not allowed; allowed: a text that is not empty")
    return value

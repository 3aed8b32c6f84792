"""A client of the admin API of cjdns, which both makes of overlay routers have: bencode over UDP."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

from tests.lab.basics.patience import patient
from tests.lab.net import namespaces

ADDRESS = ("127.0.0.1", 11234)
PASSWORD = "a password of the lab"  # noqa: S105
_LONGEST_ANSWER = 1 << 16


class AdminError(Exception):
    """The router refused a call, or did not answer."""


class AdminClient:
    """Calls functions of the router in one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def ping(self) -> bool:
        """Return whether a router answers."""
        try:
            return self._exchange({"q": "ping"}, 1.0).get("q") == "pong"
        except AdminError:
            return False

    def call(self, function: str, seconds: float = 10.0, /, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a function that needs authentication. Raises AdminError when the router refuses it."""
        answer = self._exchange(self._signed(function, arguments, seconds), seconds)
        if answer.get("error", "none") != "none":
            raise AdminError(f"{function}({arguments}): {answer['error']}")
        return answer

    def stream(self, function: str, seconds: float = 10.0, /, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Yield the answers to a function that answers more than once, until none comes for some seconds."""
        message = self._signed(function, arguments, seconds)
        with closing(namespaces.within(self._namespace, _connected)) as connection:
            connection.settimeout(patient(seconds))
            connection.send(encode(message))
            while True:
                try:
                    answer = decode(connection.recv(_LONGEST_ANSWER))
                except TimeoutError:
                    return
                if answer.get("txid") != message["txid"]:
                    raise AdminError(f"{function}: not an answer to {message['txid']}: {answer}")
                yield answer

    def _signed(self, function: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return a request as an authenticated caller sends it."""
        cookie = str(self._exchange({"q": "cookie"}, seconds)["cookie"])
        secret = sha256(f"{PASSWORD}{cookie}".encode()).hexdigest()
        message = {"q": "auth", "aq": function, "cookie": cookie, "hash": secret, "args": arguments, "txid": _txid()}
        return {**message, "hash": sha256(encode(message)).hexdigest()}

    def _exchange(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        message = {"txid": _txid(), **message}
        with closing(namespaces.within(self._namespace, _connected)) as connection:
            connection.settimeout(patient(seconds))
            try:
                connection.send(encode(message))
                answer = decode(connection.recv(_LONGEST_ANSWER))
            except OSError as error:
                raise AdminError(f"{message['q']}: {error}") from error
        if not isinstance(answer, dict) or answer.get("txid") != message["txid"]:
            raise AdminError(f"{message['q']}: not an answer to {message['txid']}: {answer}")
        return answer


def encode(value: Any) -> bytes:
    """Encode a value in bencode: text in UTF-8, keys in order."""
    match value:
        case int():
            return b"i%de" % value
        case str():
            octets = value.encode()
            return b"%d:%s" % (len(octets), octets)
        case dict():
            return b"d" + b"".join(encode(key) + encode(value[key]) for key in sorted(value)) + b"e"
        case _:
            return b"l" + b"".join(map(encode, value)) + b"e"


def decode(octets: bytes) -> Any:
    """Decode bencode, strings as text. As in cjdns itself, a length may begin with zeros."""
    return _decode(octets, 0)[0]


def _decode(octets: bytes, start: int) -> tuple[Any, int]:
    """Return a value and the position of its end."""
    match octets[start : start + 1]:
        case b"i":
            end = octets.index(b"e", start)
            return int(octets[start + 1 : end]), end + 1
        case b"l":
            return _items(octets, start + 1)
        case b"d":
            items, end = _items(octets, start + 1)
            return dict(zip(items[::2], items[1::2], strict=True)), end
        case _:
            colon = octets.index(b":", start)
            end = colon + 1 + int(octets[start:colon])
            return octets[colon + 1 : end].decode(errors="replace"), end


def _items(octets: bytes, start: int) -> tuple[list[Any], int]:
    items = []
    while octets[start : start + 1] != b"e":
        item, start = _decode(octets, start)
        items.append(item)
    return items, start + 1


def _txid() -> str:
    return secrets.token_hex(4)


def _connected() -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.connect(ADDRESS)
    return connection

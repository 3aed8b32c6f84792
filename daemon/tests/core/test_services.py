"""Services: what is refused in meshsec.toml, and what of a peer's message is believed."""

import tomllib
from typing import Any

import msgspec
import pytest

from meshsec.core.config.settings import Settings, SettingsError, decode
from meshsec.core.policy.policy import Policy
from meshsec.core.services import services
from meshsec.core.services.protocols import application, url
from meshsec.core.services.services import MessageError, Offer, Protocol, Service

NODE = '[node]\nname = "bravo"\n[routing]\ninterfaces = ["mesh0"]\n'
WIKI = Service("wiki", 80, Protocol.TCP, "The village's wiki: für alle")


def settings(text: str) -> Settings:
    return decode(tomllib.loads(NODE + text), "/etc/meshsec", lambda _: Policy())


def test_what_a_node_offers_is_read() -> None:
    found = settings(
        '[[service]]\nname = "wiki"\nport = 80\ndescription = "The village\'s wiki: für alle"\n'
        '[[service]]\nname = "ntp"\nport = 123\nprotocol = "udp"\n'
    )
    assert found.services == (WIKI, Service("ntp", 123, Protocol.UDP))
    assert settings("").services == ()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('name = "Wiki"\nport = 80', "service.0.name: 'Wiki' is not allowed; allowed: 1 to 32 characters"),
        ('name = "wiki"\nport = 0', "service.0.port: 0 is not allowed; allowed: a whole number from 1 to 65535"),
        ('name = "wiki"\nport = 80\nprotocol = "sctp"', "service.0.protocol: 'sctp' is not allowed"),
        ('name = "wiki"\nport = 80\ndescription = "a\\u001b[31mb"', "allowed: a text on one line of at most 64 bytes"),
        (f'name = "wiki"\nport = 80\ndescription = "{"ü" * 33}"', "allowed: a text on one line of at most 64 bytes"),
        ('name = "wiki"\nport = 80\n[[service]]\nname = "wiki"\nport = 81', "allowed: each name once"),
        ('name = "a"\nport = 80' + "".join(f'\n[[service]]\nname = "a{n}"\nport = 80' for n in range(8)), "at most 8"),
    ],
)
def test_what_a_node_cannot_offer_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(f"[[service]]\n{line}\n")
    assert complaint in str(refused.value).replace("[0]", ".0")


def test_the_longest_message_fits_into_a_datagram() -> None:
    most = [Service(f"{n}{'x' * 31}", 65535, Protocol.UDP, "ü" * 32) for n in range(services.SERVICES_MAX)]
    octets = services.encode(services.offer(most, asks=True))
    assert len(octets) <= services.SIZE_MAX
    assert offer(octets).services() == tuple(most)
    assert offer(octets).asks


def offer(octets: bytes) -> Offer:
    found = services.decode(octets)
    assert isinstance(found, Offer)
    return found


def message(**changed: Any) -> bytes:
    return msgspec.msgpack.encode({"type": "offer", "rows": [["wiki", 80, "tcp", "x"]], "asks": False, **changed})


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\xc1",
        message(rows=[["wiki", 80, "tcp", "x"]] * 9),
        message(rows=[["wiki", 0, "tcp", "x"]]),
        message(rows=[["wiki", 65536, "tcp", "x"]]),
        message(rows=[["wiki.mesh", 80, "tcp", "x"]]),
        message(rows=[["wiki\n", 80, "tcp", "x"]]),
        message(rows=[["", 80, "tcp", "x"]]),
        message(rows=[["a" * 33, 80, "tcp", "x"]]),
        message(rows=[["wiki", 80, "sctp", "x"]]),
        message(rows=[["wiki", 80, "tcp", "x" * 65]]),
        message(rows=[["wiki", 80, "tcp", "x", "fc00::1"]]),
        message(rows="wiki"),
        message(type="claim"),
        message(rows=[["wiki", 80, "tcp", "\N{BLACK CHESS KING}" * 64]] * 8),
        message()[:-1],
    ],
)
def test_what_is_no_message_is_refused(octets: bytes) -> None:
    with pytest.raises(MessageError):
        services.decode(octets)


def test_another_version_understands_an_offer() -> None:
    """What is new is left out where it says nothing, and a field of a later version is ignored, whatever is in it."""
    sent = msgspec.msgpack.decode(services.encode(services.offer([Service("wiki", 80)], asks=False)))
    assert sent == {"type": "offer", "rows": [["wiki", 80, "tcp", ""]]}
    assert services.decode(message(later={"x": [1, 2]})) == services.decode(message())
    deep = msgspec.msgpack.encode({"type": "offer", "later": 0})[:-1] + b"\x91" * 1100 + b"\xc0"
    with pytest.raises(MessageError):
        services.decode(deep)


@pytest.mark.parametrize("hidden", ["\x1b[31m", "\r", "\n", "\x07", "\u202e", "\u200b", "\x9b2J", "\u2028", "\0"])
def test_a_description_shows_nothing_but_characters_that_can_be_seen(hidden: str) -> None:
    (found,) = offer(message(rows=[["wiki", 80, "tcp", f"a{hidden}b"]])).services()
    assert found.description == f"a\N{REPLACEMENT CHARACTER}{hidden[1:]}b"


def test_of_one_name_the_first_counts() -> None:
    found = offer(message(rows=[["wiki", 80, "tcp", "x"], ["a", 1, "udp", ""], ["wiki", 81, "tcp", "y"]]))
    assert found.services() == (Service("a", 1, Protocol.UDP), Service("wiki", 80, Protocol.TCP, "x"))


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (Service("wiki", 80), ("http", "http://n.mesh/")),
        (Service("wiki", 8080), ("http", "http://n.mesh:8080/")),
        (Service("wiki", 443), ("https", "https://n.mesh/")),
        (Service("wiki", 80, Protocol.UDP), ("wiki", None)),
        (Service("http", 8000), ("http", "http://n.mesh:8000/")),
        (Service("http", 8000, Protocol.UDP), ("http", None)),
        (Service("cam", 554), ("rtsp", "rtsp://n.mesh/")),
        (Service("clock", 123, Protocol.UDP), ("ntp", None)),
        (Service("sixteen-letters-", 1), ("", None)),
        (Service("a-name-too-long-for-it", 1), ("", None)),
        (Service("a--b", 1), ("", None)),
        (Service("123", 1), ("", None)),
    ],
)
def test_what_a_service_is_used_by_follows_from_its_port_or_its_name(
    service: Service, expected: tuple[str, str | None]
) -> None:
    assert (application(service), url(service, "n.mesh")) == expected

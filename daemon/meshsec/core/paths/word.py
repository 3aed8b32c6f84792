"""The message by which a node asks a peer, through their SA, whether user data gets through (ADR 0095).

The message is MessagePack in UDP between ``fc..`` addresses of nodes that trust each other, at the port of services. A
question is as long as the user data that it stands for, so that nobody on the way can let it pass and drop the rest.
What comes in is from a peer that proved its key; it may be hostile, so that each number is checked.
"""

from typing import Annotated, Final

import msgspec

SIZE_MAX: Final = 1200
"""Bytes of a datagram: it fits into IPv6's smallest MTU with all headers."""
_PADDING_MAX: Final = 1100
_HEADERS: Final = 48
"""Bytes of an IPv6 and a UDP header, which the counters of an SA contain."""
_FIELDS: Final = 52
"""Bytes of the longest message without padding."""


ROUNDS: Final = 2**32 - 1
"""The highest number of a round."""


class MessageError(ValueError):
    """Bytes that are no message."""


class Word(msgspec.Struct, frozen=True, tag="path"):
    """A question or its answer. A field of a later meshsec is ignored."""

    asks: bool
    unanswered: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    """How many of the sender's questions before this one have had no answer."""
    round: Annotated[int, msgspec.Meta(ge=0, le=ROUNDS)] = 0
    """The sender's round of questions, which the answer repeats; 0: an older meshsec, which knows of none."""
    padding: Annotated[bytes, msgspec.Meta(max_length=_PADDING_MAX)] = b""


_decoder = msgspec.msgpack.Decoder(Word)


def question(unanswered: int, size: int, number: int = 0) -> bytes:
    """Return a question in a packet of about ``size`` bytes, as far as the bounds allow."""
    padding = max(0, min(size - _HEADERS - _FIELDS, _PADDING_MAX))
    return msgspec.msgpack.encode(Word(True, min(unanswered, 255), number, bytes(padding)))


def answer(number: int = 0) -> bytes:
    """Return an answer to a question of a round."""
    return msgspec.msgpack.encode(Word(False, round=number))


def decode(octets: bytes) -> Word:
    """Return the message. Raises MessageError."""
    if len(octets) > SIZE_MAX:
        raise MessageError(f"more than {SIZE_MAX} bytes")
    try:
        return _decoder.decode(octets)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MessageError(str(error)) from error

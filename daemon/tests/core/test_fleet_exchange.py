"""Two nodes that exchange have the same cards afterwards, and malformed lines are refused."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust.fleet_exchange import Answer, ExchangeError, Hello, Holding, Holdings, News, Offer, Summary

KEYS = [bytes([octet]) * 32 for octet in range(3)]


def exchanged(client: Holdings, server: Holdings) -> tuple[News, News]:
    """Return what client and server receive, through the encoded lines."""
    hello = lines.decode(lines.encode(lines.hello(client)), Hello)
    summary = lines.decode(lines.encode(lines.summary(server, hello)), Summary)
    offer = lines.decode(lines.encode(lines.offer(client, summary)), Offer)
    answer = lines.decode(lines.encode(lines.answer(server, hello, offer)), Answer)
    return answer.news(), offer.news()


def holdings(sets: dict[bytes, tuple[int, set[bytes]]]) -> Holdings:
    return {key: lines.holding(number, b"list %d" % number, cards) for key, (number, cards) in sets.items()}


_sets = st.dictionaries(
    st.sampled_from(KEYS), st.tuples(st.integers(0, 5), st.sets(st.binary(min_size=1, max_size=3), max_size=8))
)


@given(_sets, _sets)
def test_each_end_receives_what_it_lacks_of_shared_fleets_alone(
    client: dict[bytes, tuple[int, set[bytes]]], server: dict[bytes, tuple[int, set[bytes]]]
) -> None:
    to_client, to_server = exchanged(holdings(client), holdings(server))
    shared = client.keys() & server.keys()
    for news, mine, theirs in ((to_client, client, server), (to_server, server, client)):
        lacking = [card for key in shared for card in theirs[key][1] - mine[key][1]]
        assert sorted(news.cards) == sorted(lacking)
        newer = Counter(b"list %d" % theirs[key][0] for key in shared if theirs[key][0] > mine[key][0])
        assert Counter(news.lists) <= newer
        assert len(news.lists) == min(newer.total(), 2)


def test_ends_with_the_same_cards_exchange_little() -> None:
    same = {KEYS[0]: lines.holding(7, b"list", [number.to_bytes(2, "big") for number in range(1000)])}
    summary = lines.summary(same, lines.hello(same))
    assert summary.fleets[KEYS[0].hex()].cards is None
    assert len(lines.encode(summary)) < 200
    assert exchanged(same, same) == (News((), ()), News((), ()))


def test_a_thousand_cards_and_a_full_list_fit_in_a_line() -> None:
    full = {KEYS[0]: lines.holding(7, bytes(131_179), [number.to_bytes(239, "big") for number in range(4096)])}
    _, to_server = exchanged(full, {KEYS[0]: Holding()})
    assert len(to_server.cards) == 1024
    assert len(to_server.lists) == 1
    offer = lines.offer(full, lines.summary({KEYS[0]: Holding()}, lines.hello(full)))
    assert len(lines.encode(offer)) < lines.LINE_MAX / 2


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Hello, b'{"fleets": {}}'),
        (Hello, b""),
        (Hello, b"[]\n"),
        (Hello, b"\xff\n"),
        (Hello, b'{"fleets": {"00": {"list": 1, "cards": ""}}}\n'),
        (Hello, b'{"fleets": {}, "more": 1}\n'),
        (Hello, b'{"fleets": {"%s\\n": {"list": 1, "cards": "%s"}}}\n' % (KEYS[0].hex().encode(), b"0" * 64)),
        (Summary, b'{"fleets": {"%s": {"list": -1}}}\n' % KEYS[0].hex().encode()),
        (Summary, b'{"fleets": {"%s": {"list": 1, "cards": ["x"]}}}\n' % KEYS[0].hex().encode()),
        (Offer, b'{"lists": [], "cards": [%s], "lack": {}}\n' % b",".join([b'""'] * 1025)),
        (Answer, b'{"lists": ["", "", ""], "cards": []}\n'),
        (Answer, b'{"lists": [], "cards": ["%s"]}\n' % (b"A" * 600)),
        (Answer, b"[" * 100_000 + b"\n"),
    ],
)
def test_a_line_of_another_form_is_refused(kind: type[Hello], line: bytes) -> None:
    with pytest.raises(ExchangeError):
        lines.decode(line, kind)


@given(st.binary(max_size=200))
def test_any_line_is_decoded_or_refused(octets: bytes) -> None:
    for kind in (Hello, Summary, Offer, Answer):
        with pytest.raises(ExchangeError):
            lines.decode(b"x" + octets + b"\n", kind)  # type: ignore[type-var]


def test_malformed_base64_is_refused() -> None:
    with pytest.raises(ExchangeError):
        lines.decode(b'{"lists": ["%"], "cards": []}\n', Answer).news()


def test_a_truncated_line_differs_from_one_that_is_too_long() -> None:
    for length, reason in ((lines.LINE_MAX - 1, "the connection ended"), (lines.LINE_MAX, "more than 1048576 octets")):
        with pytest.raises(ExchangeError, match=reason):
            lines.decode(b" " * length, Hello)

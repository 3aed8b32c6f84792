"""libreswan's ``ipsec.conf``: what is imported, what is named as left out, and that any text is read or refused."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsec.core.formats.ipsec_conf import DEEPEST, Imported, IpsecConfError, Line, decode
from meshsec.core.ike import libreswan_suites as suites
from meshsec.core.policy.policy import decode_policy

ENDS = "\tleft=192.0.2.1\n\tright=192.0.2.2\n\tauto=add\n"


def read(text: str) -> Imported:
    return decode([Line("x.conf", number, line) for number, line in enumerate(text.split("\n"), 1)])


def test_own_values_go_before_included_ones_and_these_before_the_default() -> None:
    found = read(
        f"conn a\n\talso=b\n{ENDS}\trightid=@own\n"
        "conn b\n\trightid=@b\n\tikelifetime=2h\n"
        "conn %default\n\tikelifetime=4h\n\tsalifetime=1d\n"
    )
    assert [(peer.name, peer.address, peer.identity) for peer in found.peers] == [("a", "192.0.2.2", "@own")]
    assert found.profile == {"ike_rekey_time": 7200, "child_rekey_time": 86400}


def test_the_peer_is_the_end_that_is_not_this_node() -> None:
    assert [peer.address for peer in read(f"conn a\n{ENDS}").peers] == ["192.0.2.2"]
    turned = "conn a\n\tleft=192.0.2.1\n\tright=%defaultroute\n\tleftid=@far\n\tleftcert=far\n\tauto=start\n"
    (peer,) = read(turned).peers
    assert (peer.address, peer.identity, peer.key, peer.auto) == ("192.0.2.1", "@far", "leftcert", "start")


@pytest.mark.parametrize(
    ("auto", "why"),
    [("", "has no auto=, which means auto=ignore"), ("\tauto=ignore\n", "has auto=ignore")],
)
def test_a_connection_that_is_not_in_use_is_no_peer(auto: str, why: str) -> None:
    found = read(f"conn a\n\tleft=192.0.2.1\n\tright=192.0.2.2\n\tike=aes256-sha2;dh14\n{auto}")
    assert (found.peers, found.profile) == ([], {})
    assert found.ignored == [f"x.conf:1: conn a: {why}; set auto=add to import it as a peer of its own"]


def test_a_setting_that_is_not_imported_is_named_with_its_line() -> None:
    found = read(
        f"config setup\n\tklipsdebug=none\nconn a\n{ENDS}"
        "\tmark=7 # why\n\trightrsasigkey=0sAQ\n\tleftid=@me\n\tpfs=yes\n"
    )
    assert [line.partition(": ")[0] for line in found.ignored] == [f"x.conf:{number}" for number in (2, 7, 8, 9)]
    assert found.ignored[1] == "x.conf:7: conn a: mark: has no counterpart"
    assert "0sAQ" not in str(found)


def test_a_connection_with_any_address_is_no_peer() -> None:
    found = read("conn a\n\tleft=%defaultroute\n\tright=%any\n\tauto=add\n")
    assert not found.peers
    assert "%any means anybody" in found.ignored[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\tleft=192.0.2.1", "x.conf:1: ?left=192.0.2.1: is in no section"),
        ("conn a\nleft=192.0.2.1", "x.conf:2: left=192.0.2.1: is not understood"),
        ("conn a\n\talso=b", "x.conf:2: conn a: also: 'b' is no section here"),
        ("conn a\n" + "\talso=a\n" * (DEEPEST + 1), f"x.conf:1: conn a: also= leads to more than {DEEPEST} sections"),
        (
            "".join(f"conn c{n}\n\talso=c{n + 1}\n" for n in range(DEEPEST)) + f"conn c{DEEPEST}\n",
            "more than 16 sections",
        ),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(text: str, told: str) -> None:
    with pytest.raises(IpsecConfError) as refused:
        read(text)
    assert told in str(refused.value)


def test_sections_that_refer_to_each_other_are_read_once() -> None:
    assert len(read(f"conn a\n\talso=b\n{ENDS}conn b\n\talso=a\n{ENDS}").peers) == 2


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("aes_gcm256-sha2_256;dh31", ("aes256gcm16-prfsha256-x25519",)),
        ("aes_gcm-sha2;modp2048", ("aes256gcm16-prfsha256-modp2048", "aes128gcm16-prfsha256-modp2048")),
        ("aes256-sha2_512+sha2_256-dh19", ("aes256-sha512-ecp256", "aes256-sha256-ecp256")),
        ("chacha20_poly1305-sha384-ecp_384", ("chacha20poly1305-prfsha384-ecp384",)),
    ],
)
def test_libreswans_ike_algorithms_are_translated(theirs: str, ours: tuple[str, ...]) -> None:
    assert suites.read_ike(theirs) == ours


@pytest.mark.parametrize(
    "theirs",
    ["", "aes_gcm256", "3des-sha1;dh14", "aes512-sha2-dh14", "aes256-md5-dh14", "aes-sha2;dh22", "aes256-dh14"],
)
def test_ike_algorithms_that_meshsec_lacks_are_named(theirs: str) -> None:
    with pytest.raises(suites.UntranslatableError):
        suites.read_ike(theirs)


def test_esp_takes_the_key_exchange_of_its_ike_where_it_names_none() -> None:
    assert suites.read_esp("aes_gcm256", "x25519") == ("aes256gcm16-x25519",)
    assert suites.read_esp("aes_gcm256-null;dh14", "x25519") == ("aes256gcm16-modp2048",)
    assert suites.read_esp("aes128-sha2_512") == ("aes128-sha512",)
    with pytest.raises(suites.UntranslatableError):
        suites.read_esp("aes128")


def test_alternatives_are_bounded() -> None:
    with pytest.raises(suites.UntranslatableError, match="it means"):
        suites.read_ike("aes+aes_gcm+aes_ccm+chacha20_poly1305-sha2+sha384+sha512-dh14+dh15+dh16+dh19+dh20")


def test_our_proposals_survive_the_way_to_libreswan_and_back() -> None:
    for group in ("x25519", "ecp384", "modp4096"):
        for cipher in ("aes256gcm16-prfsha384", "chacha20poly1305-prfsha256", "aes192-sha512"):
            assert suites.read_ike(suites.ike(f"{cipher}-{group}")) == (f"{cipher}-{group}",)
        for cipher in ("aes256gcm16", "aes128ccm16", "aes256-sha384"):
            assert suites.read_esp(suites.esp(f"{cipher}-{group}")) == (f"{cipher}-{group}",)


KEYWORDS = ("also", "left", "right", "leftid", "auto", "ike", "esp", "pfs", "ikelifetime", "salifetime", "mark")
VALUES = ("a", "b", "%any", "start", "ignore", "no", "aes256-sha2;dh14", "aes_gcm+aes-null,", "8h", "9" * 30, '"', "\0")
WORDS = st.one_of(
    st.sampled_from(["conn a\n", "conn b\n", "conn %default\n", "config setup\n", "include x\n", "#", "\x1b[2J", "\n"]),
    st.builds("\t{}={}\n".format, st.sampled_from(KEYWORDS), st.sampled_from(VALUES) | st.text(max_size=5)),
    st.text(max_size=3),
)


@given(st.lists(WORDS, max_size=40).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_text_is_refused_or_gives_a_valid_policy(text: str) -> None:
    with suppress(IpsecConfError):
        found = read(text)
        decode_policy(found.profile)
        assert all(line.isprintable() for line in found.ignored)

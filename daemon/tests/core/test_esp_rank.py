"""Equally strong ESP proposals are ordered by the speed of this processor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from meshsec.core.policy.esp_rank import STRENGTH, applied, has_aes, ranked
from meshsec.core.policy.policy import DEFAULT, EspRank

X86 = "processor\t: {}\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse2 ssse3{}\n\n"
PI_4 = "processor\t: {}\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU part\t: 0xd08\n\n"
PI_5 = "processor\t: {}\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32\nCPU part\t: 0xd0b\n\n"
RISC_V = "processor\t: 0\nhart\t\t: 2\nisa\t\t: rv64imafdc\n"


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (X86.format(0, " pclmulqdq aes avx") + X86.format(1, " pclmulqdq aes avx"), True),
        (X86.format(0, " pclmulqdq aes") + X86.format(1, ""), False),
        (X86.format(0, " aes"), False),
        (X86.format(0, " pclmulqdq vaes"), False),
        (PI_4.format(0) + PI_4.format(1), False),
        (PI_5.format(0), True),
        (RISC_V, None),
        ("", None),
    ],
)
def test_aes_instructions_are_recognised_in_cpuinfo(cpuinfo: str, expected: bool | None) -> None:
    assert has_aes(cpuinfo) is expected


def test_with_aes_instructions_aes_comes_first() -> None:
    assert applied(DEFAULT, True) == DEFAULT
    chacha_first = structs.replace(DEFAULT, esp_proposals=("chacha20poly1305-x25519", "aes256gcm16-x25519"))
    assert applied(chacha_first, True).esp_proposals == ("aes256gcm16-x25519", "chacha20poly1305-x25519")


def test_without_aes_instructions_chacha_comes_first_and_weaker_proposals_stay_last() -> None:
    assert applied(DEFAULT, False).esp_proposals == (
        "chacha20poly1305-x25519-ke1_mlkem768",
        "aes256gcm16-x25519-ke1_mlkem768",
        "chacha20poly1305-x25519",
        "aes256gcm16-x25519",
        "aes128gcm16-x25519",
    )


def test_as_listed_where_the_profile_says_so_where_nobody_knows_and_where_suites_are_chosen() -> None:
    listed = structs.replace(DEFAULT, esp_rank=EspRank.LISTED)
    assert applied(listed, False) == listed
    assert applied(DEFAULT, None) == DEFAULT


@given(
    st.lists(
        st.tuples(st.sampled_from([*STRENGTH, "aes256ccm16", "aes128-sha256"]), st.sampled_from(["x25519", "ecp384"])),
        unique=True,
    ),
    st.booleans(),
)
def test_no_proposal_is_lost_and_the_strengths_keep_their_order(proposals: list[tuple[str, str]], aes: bool) -> None:
    given_ = ["-".join(one) for one in proposals]
    found = ranked(given_, aes=aes)
    assert sorted(found) == sorted(given_)
    assert [_kind(one) for one in found] == [_kind(one) for one in given_]
    assert ranked(found, aes=aes) == found


def _kind(proposal: str) -> tuple[object, str]:
    cipher, _, rest = proposal.partition("-")
    return STRENGTH.get(cipher, cipher), rest

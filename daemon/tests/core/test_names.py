"""Names of trusted nodes: who gets which, and meshsec's lines among those of the administrator."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.world import card, peer
from meshsec.core.explain import names_doctor
from meshsec.core.explain.findings import Level
from meshsec.core.formats import hosts
from meshsec.core.formats.hosts import BEGIN, END
from meshsec.core.names.names import Named, named
from meshsec.core.values.model import Peer

OWN = card(1)
LINES = ("fc00::2 n2.mesh", "10.0.0.2 n2.mesh")
BLOCK = "".join(f"{line}\n" for line in (BEGIN, *LINES, END)).encode()
LOCAL = b"127.0.0.1\tlocalhost\n# caf\xe9\n"


def test_this_node_and_its_peers_have_names_with_both_addresses() -> None:
    found = named([OWN], [peer(3), peer(2)])
    assert [(one.full, [str(address) for address in one.addresses]) for one in found] == [
        ("n1.mesh", ["fc00::1", "10.0.0.1"]),
        ("n2.mesh", ["fc00::2", "10.0.0.2"]),
        ("n3.mesh", ["fc00::3", "10.0.0.3"]),
    ]
    assert named([card(4, ipv4=False)], []) == (Named("n4", (card(4).address,)),)


@pytest.mark.parametrize("said", ["n2", "n1", "localhost", "x.mesh", "a b", "\n::1 localhost"])
def test_what_a_card_says_of_its_own_name_counts_nowhere(said: str) -> None:
    liar = Peer("stranger", replace(card(9), name=said))
    assert named([OWN], [peer(2), liar])[1:] == (*named([], [peer(2)]), Named("stranger", named([], [peer(9)])[0][1]))


def test_a_peer_cannot_have_this_nodes_name() -> None:
    assert named([OWN], [Peer("n1", card(9))]) == named([OWN], [])


def test_while_a_key_is_changed_the_name_has_the_addresses_of_both_the_present_ones_first() -> None:
    following = Peer("n2~", card(2, key=7), "n2~")
    (found,) = named([], [following, peer(2)])
    assert [str(one) for one in found.addresses] == ["fc00::2", "10.0.0.2", "fc00::7"]
    (own,) = named([OWN, card(1, key=8)], [])
    assert [str(one) for one in own.addresses] == ["fc00::1", "10.0.0.1", "fc00::8"]


def test_the_lines_of_names_are_read_back() -> None:
    assert hosts.parse(hosts.render(named([], [peer(2)]))) == LINES


@pytest.mark.parametrize(
    "line",
    ["fc00::2 n2", "fc00::2 n2.mesh evil", "fc00::2 localhost", "fc00::2 y.x.n2.mesh", "fc00::2  n2.mesh", "z n2.mesh",
     "fc00::2::3 n2.mesh", "fc00::2 -n2.mesh", "fc00::2 N2.mesh", "fc00::2 n2.mesh.", "# x", ""],
)  # fmt: skip
def test_a_line_that_meshsecd_cannot_have_written_is_refused(line: str) -> None:
    with pytest.raises(hosts.HostsError, match="line 2 is"):
        hosts.parse(f"{LINES[0]}\n{line}\n{LINES[1]}\n")


def test_lines_are_added_at_the_end_changed_in_their_place_and_removed() -> None:
    added = hosts.joined(LOCAL, LINES)
    assert added == LOCAL + BLOCK
    changed = hosts.joined(added + b"10.1.1.1 printer\n", LINES[:1])
    assert changed == LOCAL + BLOCK.replace(b"10.0.0.2 n2.mesh\n", b"") + b"10.1.1.1 printer\n"
    assert hosts.joined(changed, ()) == LOCAL + b"10.1.1.1 printer\n"
    assert hosts.joined(LOCAL.rstrip(b"\n"), LINES) == LOCAL + BLOCK, "the last line had no end"
    assert hosts.joined(b"", LINES) == BLOCK
    assert hosts.joined(b"", ()) == b""


def test_lines_of_others_between_the_marks_and_after_a_lost_mark_stay() -> None:
    amid = BLOCK.replace(b"10.0.0.2 n2.mesh\n", b"10.1.1.1 printer\nfc00::9 old.mesh\n")
    assert hosts.joined(LOCAL + amid, LINES) == LOCAL + BLOCK + b"10.1.1.1 printer\n"
    unended = BLOCK.removesuffix(f"{END}\n".encode()) + b"10.1.1.1 printer\n10.1.1.2 mine.mesh\n"
    assert hosts.joined(LOCAL + unended, LINES) == LOCAL + BLOCK + b"10.1.1.1 printer\n10.1.1.2 mine.mesh\n"
    mine = b"10.1.1.1 printer\n10.1.1.2 mine.mesh\n"
    assert hosts.joined(unended + BLOCK, LINES) == BLOCK + mine, "the last mark is that of the second block"
    assert hosts.joined(f"{END}\n".encode() + LOCAL, ()) == LOCAL, "a last mark alone"
    assert hosts.joined(BLOCK + LOCAL + BLOCK, LINES) == BLOCK + LOCAL, "twice"


pieces = st.lists(
    st.sampled_from([*(f"{line}\n".encode() for line in (BEGIN, END, *LINES, "fc00::9 old.mesh", "::1 a"))])
    | st.binary(max_size=6),
    max_size=12,
).map(b"".join)


@given(pieces, st.sampled_from([(), LINES[:1], LINES]))
def test_no_line_of_others_is_lost_or_moved_and_a_second_time_changes_nothing(content: bytes, lines: list[str]) -> None:
    def others(text: bytes) -> list[bytes]:
        found = [line.strip() for line in text.splitlines()]
        return [line for line in found if line and line not in ours]

    ours = {one.encode() for one in (BEGIN, END, *LINES, "fc00::9 old.mesh")}
    result = hosts.joined(content, lines)
    assert others(result) == others(content)
    assert hosts.joined(result, lines) == result
    assert hosts.parts(result).lines == tuple(lines)


def test_doctor_names_what_is_missing_and_what_is_stale() -> None:
    (fine,) = names_doctor.applied(LINES, LINES, "x")
    assert (fine.level, fine.fix) == (Level.OK, "")
    (bad,) = names_doctor.applied(LINES, ("fc00::9 old.mesh",), "systemctl start it")
    assert bad.level is Level.WARN
    assert bad.found == "not in /etc/hosts: n2.mesh; still in /etc/hosts: old.mesh"
    assert bad.fix == "systemctl start it"
    many = [f"fc00::{number} n{number}.mesh" for number in range(1, 10)]
    assert names_doctor.applied(many, (), "")[0].found == (
        "not in /etc/hosts: n1.mesh, n2.mesh, n3.mesh, n4.mesh and 5 more"
    )


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("hosts: files dns", ""),
        ("hosts:\tfiles mdns4_minimal [NOTFOUND=return] dns", ""),
        ("hosts: mymachines resolve [!UNAVAIL=return] files dns", ""),
        ("hosts: resolve [!UNAVAIL=return] dns", ""),
        ("passwd: files", ""),
        ("hosts: dns # files", "does not name 'files'"),
        ("hosts: dns files", "has 'dns' before 'files'"),
    ],
)
def test_doctor_names_a_name_service_that_does_not_read_etc_hosts_first(line: str, wrong: str) -> None:
    found = names_doctor.switched(f"group: files\n{line}\n")
    assert [wrong in check.found and check.level is Level.WARN for check in found] == [True] * bool(wrong)


def test_doctor_names_lines_of_the_administrator_for_names_of_nodes() -> None:
    assert names_doctor.overruled(LINES, "::1 localhost # n2.mesh\nfc00::2 m2.mesh\n") == []
    (found,) = names_doctor.overruled(LINES, "10.1.1.1 router n2.mesh\n")
    assert "lines of its own for n2.mesh" in found.found

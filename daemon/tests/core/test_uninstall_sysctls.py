"""Sysctls get back what other files say, else the kernel's default, and nothing that somebody else has set changes."""

from pathlib import Path

import pytest

from meshsec.core.uninstall import sysctls
from meshsec.core.uninstall.sysctls import Change, changes

OURS = Path(__file__).parents[2] / "systemd/sysctl.d"
DEBIAN = """\
# Debian's
net.ipv4.conf.default.rp_filter = 2
net.ipv4.conf.*.rp_filter = 2
-net.ipv4.conf.all.rp_filter
"""
PATTERN = "net.ipv4.conf.*.rp_filter = 0\nnet.ipv4.conf.all.rp_filter=0\n"
ALL, ETH0, DEFAULT = (f"net/ipv4/conf/{name}/rp_filter" for name in ("all", "eth0", "default"))


def back(own: str, others: dict[str, str], **present: str) -> dict[str, tuple[str, str]]:
    return {one.key: (one.after, one.source) for one in changes([own], others, present)}


def test_every_key_of_our_files_has_a_default() -> None:
    for path in OURS.glob("*.conf"):
        for key, value in sysctls.assignments(path.read_text()).items():
            one = key.replace("*", "eth0")
            assert value is not None
            assert changes([f"{key} = 7"], {}, {one: "7"}), key


def test_without_other_files_the_kernels_default_comes_back_and_forwarding_first() -> None:
    own = "net.ipv4.conf.all.accept_redirects = 0\nnet.ipv4.ip_forward = 1\n"
    present = {"net/ipv4/conf/all/accept_redirects": "0", "net/ipv4/ip_forward": "1"}
    assert changes([own], {}, present) == (
        Change("net/ipv4/ip_forward", "1", "0", "the kernel's default"),
        Change("net/ipv4/conf/all/accept_redirects", "0", "1", "the kernel's default"),
    )


def test_a_key_by_its_name_ranks_above_patterns_and_an_excluded_one_has_the_default() -> None:
    found = back(PATTERN, {"50-default.conf": DEBIAN}, **{ALL: "0", ETH0: "0", DEFAULT: "0"})
    assert found == {ETH0: ("2", "50-default.conf"), DEFAULT: ("2", "50-default.conf")}, "0 is the default of `all`"


def test_the_last_of_several_files_counts_whatever_its_place_among_ours() -> None:
    others = {"10.conf": "net/ipv4/ip_forward=0", "99.conf": "net.ipv4.ip_forward = 1"}
    assert back("net.ipv4.ip_forward=1", others, **{"net/ipv4/ip_forward": "1"}) == {}
    later = {**others, "99.conf": "net.ipv4.conf.*.rp_filter = 1", "98.conf": "net.ipv4.conf.eth*.rp_filter = 2"}
    assert back(PATTERN, dict(sorted(later.items())), **{ETH0: "0"}) == {ETH0: ("1", "99.conf")}


def test_a_value_that_somebody_else_has_set_stays() -> None:
    assert back("net.ipv4.ip_forward = 1", {"10.conf": "net.ipv4.ip_forward = 1"}, **{"net/ipv4/ip_forward": "0"}) == {}
    assert back(PATTERN, {"50-default.conf": DEBIAN}, **{ETH0: "1"}) == {}


def test_a_mesh_interface_gets_back_what_it_would_have_taken_over() -> None:
    own, default = "net.ipv4.conf.default.send_redirects = 0", "net/ipv4/conf/default/send_redirects"
    present = {f"net/ipv4/conf/{name}/send_redirects": "0" for name in ("mesh0", "eth0")}
    assert sysctls.keys([own], ("mesh0",)) == {default, default.replace("default", "mesh0")}

    def found(text: str) -> list[tuple[str, str, str]]:
        back = changes([own], {"50.conf": text}, present, ("mesh0",))
        return [(one.key.split("/")[3], one.after, one.source) for one in back]

    assert found("") == [("mesh0", "1", "the kernel's default")], "who has set eth0 is not known"
    assert found("net.ipv4.conf.default.send_redirects = 2") == [("mesh0", "2", "50.conf")]
    assert found("net.ipv4.conf.mesh0.send_redirects = 0\nnet.ipv4.conf.default.send_redirects = 2") == []
    assert found("net.ipv4.conf.*.send_redirects = 3\nnet.ipv4.conf.default.send_redirects = 2")[0][1] == "3"


def test_a_wildcard_matches_no_slash() -> None:
    own = "net.ipv4.conf.*.rp_filter = 0"
    assert back(own, {"1.conf": "net.ipv4.*.rp_filter = 2"}, **{ETH0: "0"}) == {}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("net.ipv4.conf.eth0/7.rp_filter = 1", {"net/ipv4/conf/eth0.7/rp_filter": "1"}),
        ("net/ipv4/conf/eth0.7/rp_filter=1", {"net/ipv4/conf/eth0.7/rp_filter": "1"}),
        ("- net.a = 1", {"net/a": "1"}),
        ("-net.a", {"net/a": None}),
        ("net.ipv4.ping_group_range = 0\t7 ", {"net/ipv4/ping_group_range": "0 7"}),
        ("net.a", {}),
        ("; net.a = 1", {}),
        ("# net.a = 1", {}),
        ("", {}),
    ],
)
def test_lines_are_read_as_systemd_reads_them(line: str, found: dict[str, str | None]) -> None:
    assert sysctls.assignments(line) == found

"""The fragments' form, and that ours have it."""

import pytest

from kernelconfig import files, fragments
from kernelconfig.fragments import FEATURES, Severity
from kernelconfig.syntax import ConfigSyntaxError

ENTRY = "# required kernel-esp: first line,\n#   second line.\nCONFIG_XFRM_USER=m\n"


def test_an_entry_carries_symbol_value_severity_feature_and_the_whole_reason() -> None:
    (want,) = fragments.parse(f"# prose\n\n{ENTRY}", "a.config")
    assert (want.symbol, want.value, want.severity) == ("XFRM_USER", "m", Severity.REQUIRED)
    assert (want.feature, want.reason) == ("kernel-esp", "first line, second line.")
    assert (want.fragment, want.line) == ("a.config", 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CONFIG_XFRM=y\n", "a.config:1: 'CONFIG_XFRM=y' is not allowed here"),
        ("# a remark\nCONFIG_XFRM=y\n", "a.config:2: 'CONFIG_XFRM=y'"),
        ("# urgent routing: why\nCONFIG_XFRM=y\n", "a.config:2: 'CONFIG_XFRM=y'"),
        ("# required routing:\nCONFIG_XFRM=y\n", "a.config:2: 'CONFIG_XFRM=y'"),
        ("# required routing: why\n# unindented\nCONFIG_XFRM=y\n", "a.config:3: 'CONFIG_XFRM=y'"),
        ("# required flying: why\nCONFIG_XFRM=y\n", "a.config:1: 'flying' is not allowed here; allowed is a feature: "),
        ("# required routing: why\n\nCONFIG_XFRM=y\n", "a.config:2: '' is not allowed here"),
        ("# required routing: why\nXFRM=y\n", "a.config:2: 'XFRM=y'"),
        (f"{ENTRY}CONFIG_XFRM=y\n", "a.config:4: 'CONFIG_XFRM=y'"),
        (f"{ENTRY}\n# required routing: why\n", "a.config: ends without an assignment"),
        ("", "a.config: ends without an assignment"),
    ],
)
def test_a_malformed_entry_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        fragments.parse(text, "a.config")
    assert str(caught.value).startswith(message)


def test_a_file_of_settings_has_comments_as_it_likes() -> None:
    settings = fragments.parse_settings("# prose\n\n# CONFIG_A is not set\n# more\nCONFIG_B=m\n", "a.config")
    assert [(each.symbol, each.value, each.fragment, each.line) for each in settings] == [
        ("A", "n", "a.config", 3),
        ("B", "m", "a.config", 5),
    ]
    with pytest.raises(ConfigSyntaxError, match=r"^a.config:2: 'B=m' is not allowed here; allowed is an assignment"):
        fragments.parse_settings("CONFIG_A=y\nB=m\n", "a.config")


def test_a_symbol_occurs_once_in_all_fragments() -> None:
    twice = [fragments.parse(ENTRY, "a.config"), fragments.parse(ENTRY, "b.config")]
    with pytest.raises(ConfigSyntaxError, match=r"^b.config:3: CONFIG_XFRM_USER is set already at a.config:3$"):
        fragments.union(twice)


@pytest.mark.parametrize(
    ("wanted", "met", "unmet"),
    [("m", ["m", "y"], ["n"]), ("y", ["y"], ["m", "n"]), ("n", ["n"], ["m", "y"]), ("10", ["10"], ["0", "n", "y"])],
)
def test_a_module_may_be_built_in_and_all_else_is_exact(wanted: str, met: list[str], unmet: list[str]) -> None:
    line = "# CONFIG_A is not set" if wanted == "n" else f"CONFIG_A={wanted}"
    (want,) = fragments.parse(f"# required routing: why\n{line}\n", "a.config")
    assert [value for value in met + unmet if want.is_met_by(value)] == met


def test_our_fragments_have_the_form_and_every_feature_is_used() -> None:
    wants = files.read_fragments()
    assert {want.fragment for want in wants} == {
        "hardening.config",
        "ipsec.config",
        "mesh-radio.config",
        "netfilter.config",
        "networks.config",
        "preempt-rt.config",
        "virtual-lab.config",
    }
    assert {want.feature for want in wants} == set(FEATURES)


def test_nothing_of_the_lab_is_required_of_a_vehicle() -> None:
    assert {want.severity for want in files.read_fragments() if want.feature == "lab"} == {Severity.RECOMMENDED}


def test_each_reason_stands_alone() -> None:
    reasons = [want.reason for want in files.read_fragments()]
    assert not [reason for reason in reasons if reason.startswith("the same")]
    assert all(reason.endswith(".") for reason in reasons)

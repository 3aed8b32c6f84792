"""``policy`` lists, shows, explains and checks profiles."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import jsonschema
from click.testing import Result

from meshsec.core.policy.policy import DEFAULT, decode_policy

Meshsec = Callable[..., Result]
ROOT = Path(__file__).parents[3]


def schema(name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((ROOT / "docs/reference/schema" / f"{name}.json").read_text())
    return found


def own_profile(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a/policies/mine.toml"
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_list_has_the_shipped_profiles_and_those_beside_the_configuration(meshsec: Meshsec, tmp_path: Path) -> None:
    path = own_profile(tmp_path, 'ike_proposals = ["aes256gcm16-prfsha384-ecp384"]\n')
    answer = json.loads(meshsec("policy", "list", "--json").stdout)
    jsonschema.validate(answer, schema("meshsec-policies-1"))
    found = {one["name"]: one for one in answer["profiles"]}
    assert {"default", "deadline", "bsi", "rfc8247", "nist-800-77r1", "rfc9206", "ccm", "low-latency"} <= found.keys()
    assert (found["mine"]["file"], found["mine"]["ike"]) == (str(path), "aes256gcm16-prfsha384-ecp384")
    assert str(path) in meshsec("policy", "list").stdout


def test_what_show_prints_is_a_profile(meshsec: Meshsec) -> None:
    for name in ("default", "deadline", "low-latency"):
        file = ROOT / "policies" / f"{name}.toml"
        shown = tomllib.loads(meshsec("policy", "show", name).stdout)
        assert decode_policy(shown) == decode_policy(tomllib.loads(file.read_text()))


def test_without_a_name_show_prints_the_policy_in_force(meshsec: Meshsec, tmp_path: Path) -> None:
    with (tmp_path / "a/meshsec.toml").open("a") as config:
        config.write("[policy]\nhold_time = 7\n")
    answer = json.loads(meshsec("policy", "show", "--json").stdout)
    jsonschema.validate(answer, schema("meshsec-policy-1"))
    assert answer["settings"]["hold_time"] == 7
    assert answer["settings"]["concurrency"] == DEFAULT.concurrency


def test_explain_describes_each_proposal_and_names_what_libreswan_lacks(meshsec: Meshsec, tmp_path: Path) -> None:
    own_profile(tmp_path, 'ike_proposals = ["aes256ccm16-prfsha256-x25519"]\n')
    text = meshsec("policy", "explain", "mine").stdout
    assert "x25519: Curve25519 (RFC 8031)" in text
    assert "libreswan: cannot: libreswan has aes256ccm16 in ESP alone" in text
    assert "libreswan: aes_gcm256-null-dh31" in text


def test_an_unknown_name_is_refused_with_a_list_of_the_known_ones(meshsec: Meshsec) -> None:
    result = meshsec("policy", "explain", "none-such")
    assert result.exit_code == 1
    assert "'none-such'" in result.stderr
    assert "bsi, ccm, deadline, default" in result.stderr


def test_check_names_file_line_and_field(meshsec: Meshsec, tmp_path: Path) -> None:
    path = own_profile(tmp_path, '# Old.\nike_proposals = ["3des-sha1-modp1024"]\nfloor = 3\n')
    for arguments in (("policy", "check", str(path)), ("policy", "check")):
        result = meshsec(*arguments)
        assert result.exit_code == 1
        assert f"{path}:2: ike_proposals.0: '3des-sha1-modp1024' is not allowed" in result.stderr
        assert f"{path}:3: floor: 3" in result.stderr


def test_check_accepts_a_good_profile(meshsec: Meshsec) -> None:
    result = meshsec("policy", "check")
    assert result.exit_code == 0
    assert "/policies/bsi.toml: nothing is wrong" in result.stdout


def test_the_replay_window_of_a_policy_is_exported(meshsec: Meshsec, boat: Meshsec, tmp_path: Path) -> None:
    config = tmp_path / "a/meshsec.toml"
    config.write_text(config.read_text().replace('"libipsec"', '"kernel"') + "[policy]\nreplay_window = 64\n")
    meshsec("peer", "add", "boat", json.loads(boat("key", "show", "--json").stdout)["card"])
    assert "\treplay-window=64\n" in meshsec("export", "libreswan").stdout
    assert "replay_window = 64\n" in meshsec("export", "swanctl").stdout

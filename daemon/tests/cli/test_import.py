"""``import`` writes a file for its owner alone and names what it left out."""

import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from meshsec.core.formats import overlay_key
from meshsec.core.trust import identity

Meshsec = Callable[..., Result]
SAMPLE = Path(__file__).parents[3] / "tests/vectors/cjdns/cjdroute.conf"
LIBRESWAN = Path(__file__).parents[3] / "tests/vectors/libreswan/ipsec.conf"


def test_the_written_configuration_is_for_its_owner_alone(meshsec: Meshsec, tmp_path: Path) -> None:
    into = tmp_path / "etc/overlayd/overlayd.toml"
    done = meshsec("import", str(SAMPLE), "--into", str(into))
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(into.stat().st_mode) == 0o600
    written = tomllib.loads(into.read_text())
    assert written["key"] == str(tmp_path / "a/state/node.key")
    assert "permit" not in written
    assert [user["password"] for user in written["user"]] == ['password // of "login-a"', "password-for-one"]
    assert "2f016f10" not in into.read_text()


def test_nothing_secret_is_printed_and_the_new_key_is(meshsec: Meshsec, tmp_path: Path) -> None:
    done = meshsec("import", str(SAMPLE), "--into", str(tmp_path / "overlayd.toml"))
    assert not any(secret in done.output for secret in ("2f016f10", "password-of-b", "password-for-one", 'of "login'))
    own = next(line.split()[1] for line in done.output.splitlines() if line.startswith("key "))
    address = next(line.split()[1] for line in done.output.splitlines() if line.startswith("address "))
    assert str(identity.address_of(overlay_key.decode(own))) == address
    assert "in place of hhvdz2fk15d0n8pdjmsz4gjfzsznts1y254nyrn97444um86j8n0.k" in done.output
    assert f"not imported: {SAMPLE}:3: privateKey: " in done.output


def test_existing_files_are_kept(meshsec: Meshsec, tmp_path: Path) -> None:
    into = tmp_path / "overlayd.toml"
    into.write_text("mine")
    done = meshsec("import", str(SAMPLE), "--into", str(into))
    assert done.exit_code == 1
    assert f"{into} exists and is kept" in done.output
    assert meshsec("import", str(SAMPLE), "--into", str(into), "--check").exit_code == 0
    assert into.read_text() == "mine"


def test_the_caller_chooses_with_whom_user_data_is_exchanged(meshsec: Meshsec, tmp_path: Path) -> None:
    into = tmp_path / "overlayd.toml"
    assert meshsec("import", str(SAMPLE), "--into", str(into), "--anybody").exit_code == 0
    assert tomllib.loads(into.read_text())["permit"] == "anybody"


def test_a_file_that_is_refused_writes_nothing(meshsec: Meshsec, tmp_path: Path) -> None:
    bad, into = tmp_path / "bad.conf", tmp_path / "overlayd.toml"
    bad.write_text('{"admin": {\n"bind": "everywhere"}}')
    done = meshsec("import", str(bad), "--into", str(into))
    assert done.exit_code == 1
    assert f"{bad}:2: admin.bind: 'everywhere' is not allowed; allowed: ADDRESS:PORT" in done.output
    assert not into.exists()


def test_a_node_without_a_key_imports_nothing(meshsec: Meshsec, tmp_path: Path) -> None:
    for file in (tmp_path / "a/state").iterdir():
        file.unlink()
    done = meshsec("import", str(SAMPLE), "--into", str(tmp_path / "overlayd.toml"))
    assert done.exit_code == 1
    assert "there is no key" in done.output
    assert not (tmp_path / "overlayd.toml").exists()


def test_without_a_format_the_file_is_read_as_cjdnss(meshsec: Meshsec) -> None:
    named, alone = (meshsec("import", *kind, str(SAMPLE), "--check") for kind in (("cjdns",), ()))
    assert named.exit_code == alone.exit_code == 0
    assert named.output == alone.output
    assert meshsec("import", "--check", str(SAMPLE)).output == alone.output


def test_libreswans_policy_becomes_a_profile_that_is_in_force_when_named(meshsec: Meshsec, tmp_path: Path) -> None:
    into = tmp_path / "a/policies/libreswan.toml"
    done = meshsec("import", "libreswan", str(LIBRESWAN), "--into", str(into))
    assert done.exit_code == 0, done.output
    assert tomllib.loads(into.read_text()) == {
        "ike_proposals": ["aes256gcm16-prfsha256-x25519", "aes256-sha512-ecp256", "aes256-sha256-ecp256"],
        "esp_proposals": ["aes256gcm16-x25519", "aes128ccm16-modp2048"],
        "ike_rekey_time": 28800,
        "child_rekey_time": 1800,
    }
    (config := tmp_path / "a/meshsec.toml").write_text(f'{config.read_text()}[policy]\nprofile = "libreswan"\n')
    assert meshsec("check").exit_code == 0


def test_peers_without_a_card_and_settings_left_out_are_named(meshsec: Meshsec, tmp_path: Path) -> None:
    done = meshsec("import", "libreswan", str(LIBRESWAN), "--into", str(tmp_path / "x.toml"), "--check")
    assert not (tmp_path / "x.toml").exists()
    needed = [line for line in done.output.splitlines() if line.startswith("peer ")]
    assert needed == [
        "peer van-2: 192.0.2.2 as @van-2, rightecdsakey, auto=start; needed: its card, `meshsec peer add van-2 CARD`",
        "peer Office_Gateway: 198.51.100.7, auto=ondemand; needed: its card, `meshsec peer add NAME CARD`",
    ]
    vans = LIBRESWAN.parent / "ipsec.d/vans.conf"
    for told in (
        f"{LIBRESWAN}:16: ike: 3des-sha1;modp2048: '3des' is no encryption that meshsec takes",
        f"{vans}:14: conn Office_Gateway: mark: has no counterpart",
        f"{vans}:17: conn roadwarriors: %any means anybody",
        f"{vans}:22: conn unused: has no auto=",
    ):
        assert f"not imported: {told}" in done.output


def test_a_bad_ipsec_conf_writes_nothing(meshsec: Meshsec, tmp_path: Path) -> None:
    bad, into = tmp_path / "ipsec.conf", tmp_path / "x.toml"
    bad.write_text("conn a\n\tike=aes256-sha2;dh14\nleft=192.0.2.1\n")
    done = meshsec("import", "libreswan", str(bad), "--into", str(into))
    assert (done.exit_code, into.exists()) == (1, False)
    assert f"{bad}:3: left=192.0.2.1: is not understood" in done.output


@pytest.mark.parametrize(("auto", "told"), [("", "has no auto="), ("\tauto=add\n", "peer a: 192.0.2.2, auto=add")])
def test_an_ipsec_conf_without_a_policy_is_imported(meshsec: Meshsec, tmp_path: Path, auto: str, told: str) -> None:
    """A file without proposals and lifetimes, or whose only conn has no ``auto=``, leaves the policy as it is."""
    conf, into = tmp_path / "ipsec.conf", tmp_path / "x.toml"
    conf.write_text(f"conn a\n\tleft=192.0.2.1\n\tright=192.0.2.2\n{auto}")
    done = meshsec("import", "libreswan", str(conf), "--into", str(into))
    assert (done.exit_code, into.exists()) == (0, False), done.output
    assert told in done.output
    assert "the policy stays as it is" in done.output


def test_an_existing_profile_is_kept(meshsec: Meshsec, tmp_path: Path) -> None:
    (into := tmp_path / "x.toml").write_text("mine")
    done = meshsec("import", "libreswan", str(LIBRESWAN), "--into", str(into))
    assert (done.exit_code, into.read_text()) == (1, "mine")

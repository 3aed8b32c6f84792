"""The shipped profiles: each agrees with its name, is complete, and has no broken algorithms."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.core.explain.policy_view import proposals, settings, view
from meshsec.core.ike import libreswan_suites
from meshsec.core.policy.policy import DEFAULT, Policy, PolicyError, decode_policy

ROOT = Path(__file__).parents[3]
PROFILES = {path.stem: path for path in (ROOT / "policies").glob("*.toml")}
SCHEMA: dict[str, Any] = json.loads((ROOT / "policies/policy.schema.json").read_text())
VIEW: dict[str, Any] = json.loads((ROOT / "docs/reference/schema/meshsec-policy-1.json").read_text())
GROUPS_OF_NIST = ("ecp256", "ecp384", "modp3072", "modp4096")


def load(name: str) -> Policy:
    return decode_policy(tomllib.loads(PROFILES[name].read_text()))


def words(policy: Policy) -> set[str]:
    return {word for one in (*policy.ike_proposals, *policy.esp_proposals) for word in one.split("-")}


@pytest.mark.parametrize("name", PROFILES)
def test_a_shipped_profile_follows_the_schema(name: str) -> None:
    jsonschema.validate(tomllib.loads(PROFILES[name].read_text()), SCHEMA)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_that_is_shown_and_read_again_is_the_same(name: str) -> None:
    assert decode_policy(settings(load(name))) == load(name)


@pytest.mark.parametrize("name", PROFILES)
def test_each_algorithm_of_a_shipped_profile_is_explained_with_its_source(name: str) -> None:
    assert all(part.is_ and part.source for one in proposals(load(name)) for part in one.parts)
    jsonschema.validate(view(name, "", load(name)), VIEW)


@pytest.mark.parametrize("name", PROFILES)
def test_libreswan_can_do_the_whole_of_a_shipped_profile_but_for_what_is_post_quantum(name: str) -> None:
    policy = load(name)
    refused = libreswan_suites.all_ike(policy.ike_proposals)[1] + libreswan_suites.all_esp(policy.esp_proposals)[1]
    assert {one.why for one in refused} <= {"libreswan has no ke1_mlkem768"}


@pytest.mark.parametrize("name", PROFILES)
def test_each_rekeyed_sa_has_forward_secrecy(name: str) -> None:
    assert all(map(libreswan_suites.has_key_exchange, load(name).esp_proposals))


@pytest.mark.parametrize("name", ["bsi", "nist-800-77r1", "rfc9206"])
def test_profiles_named_after_authorities_have_their_groups_alone(name: str) -> None:
    found = {word for word in words(load(name)) if word.startswith(("x", "ecp", "modp"))}
    assert found
    assert found <= set(GROUPS_OF_NIST)


def test_the_cnsa_suite_has_aes_256_and_long_hashes_alone() -> None:
    assert words(load("rfc9206")) == {"aes256gcm16", "prfsha384", "prfsha512", "ecp384", "modp4096"}


def test_ccm_protects_user_data_by_ccm_alone() -> None:
    assert all("ccm16" in one for one in load("ccm").esp_proposals)


def test_low_latency_has_a_shorter_deadline_than_the_default() -> None:
    assert load("low-latency").deadline_ms < DEFAULT.deadline_ms


def test_algorithms_that_libreswan_lacks_are_named() -> None:
    policy = decode_policy({"ike_proposals": ["aes256ccm16-prfsha256-x25519"]})
    (first, *_) = proposals(policy)
    assert (first.libreswan, first.why_not) == ("", "libreswan has aes256ccm16 in ESP alone")


@pytest.mark.parametrize(
    "proposal",
    [
        "3des-sha256-modp2048",
        "des-sha256-modp2048",
        "aes128-md5-modp2048",
        "aes128-sha1-modp2048",
        "aes128-sha256-prfsha1-modp2048",
        "aes128-sha256-modp1024",
        "aes128-sha256-modp1536",
        "null-sha256-modp2048",
    ],
)
def test_broken_algorithms_are_refused_and_named(proposal: str) -> None:
    for table in (
        {"ike_proposals": ["aes256gcm16-prfsha256-x25519", proposal]},
        {"esp_proposals": [proposal]},
        {"suites": [{"name": "old", "ike": "aes128-sha256-modp2048", "esp": proposal}]},
    ):
        with pytest.raises(PolicyError, match=f"{proposal}.* is not allowed; allowed: algorithms that are not broken"):
            decode_policy(table)

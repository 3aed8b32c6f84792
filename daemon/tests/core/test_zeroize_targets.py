"""What is destroyed follows from the configuration, and from the packages where it says nothing or nonsense."""

from fnmatch import fnmatchcase

import pytest

from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.config.routing_settings import RoutingSettings
from meshsec.core.config.settings import Paths
from meshsec.core.zeroize import targets as module
from meshsec.core.zeroize.targets import SYSTEM_CONFIG, targets


def test_the_defaults_are_those_of_the_configuration() -> None:
    assert (Paths().state, Paths().run) == (module.STATE, module.RUN)
    assert RoutingSettings(interfaces=("mesh0",)).signer == module.SIGNER
    assert OverlaySettings().socket == module.OVERLAY


@pytest.mark.parametrize("found", [{}, {"paths": 7}, {"paths": {"state": 7, "run": ""}}, {"zeroize": {"also": 7}}])
def test_a_damaged_configuration_of_the_units_saves_no_key(found: dict[str, object]) -> None:
    wanted = targets(SYSTEM_CONFIG, found)
    assert wanted.patterns[0] == "/var/lib/meshsec/node.key"
    assert "/etc/credstore/meshsec.*" in wanted.patterns
    assert wanted.in_homes
    assert {"/run/meshsec", module.SIGNER, module.OVERLAY} <= {*wanted.sockets}
    assert "meshsecd.service" in wanted.units
    assert wanted.also == ()


def test_what_an_interrupted_restore_has_left_is_destroyed_with_its_mark() -> None:
    patterns = targets(SYSTEM_CONFIG, {}).patterns
    for path in (
        "/var/lib/meshsec/.restore-interrupted",
        "/var/lib/meshsec/.node.key.restoring",
        "/var/lib/meshsec/.second-secret.restoring",
        "/etc/credstore/.meshsec.sae-password.restoring",
        "/etc/overlayd/.overlayd.toml.restoring",
    ):
        assert any(fnmatchcase(path, pattern) for pattern in patterns), path


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("meshsec.sae-password", True),
        ("meshsec.access-password", True),
        ("meshsec.root-password", True),
        ("MESHSEC.SAE-PASSWORD", True),
        (".meshsec.sae-password.swp", True),
        ("meshsec.sae-password.txt~", True),
        *((f"meshsec.{name}", False) for name in ("config", "name", "peers", "join", "join.png")),
    ],
)
def test_the_passwords_that_were_given_to_an_image_go_and_the_rest_stays(name: str, goes: bool) -> None:
    """A join file admits nobody, and cards are public."""
    wanted = targets(SYSTEM_CONFIG, {})
    given = [one.rpartition("/")[2] for one in wanted.patterns if one.startswith("/efi/meshsec/")]
    assert any(fnmatchcase(name, one) for one in given) == goes
    other = targets("/lab/a/etc/meshsec.toml", {})
    assert not [one for one in other.patterns if one.startswith("/efi")]


def test_another_nodes_secrets_and_daemons_are_none_of_its_business() -> None:
    found = {"paths": {"state": "../var", "run": "/run/lab"}, "routing": {"interfaces": ["mesh0", 3]}}
    wanted = targets("/lab/a/etc/meshsec.toml", found)
    assert all(one.startswith(("/lab/a/var/", "/run/lab/")) for one in wanted.patterns)
    assert wanted.sockets[0] == "/run/lab"
    assert not {module.SIGNER, module.OVERLAY} & {*wanted.sockets}
    assert wanted.units == ()
    assert not wanted.in_homes
    assert wanted.arguments == ("/lab/a/etc/meshsec.toml", "/lab/a/var/node.key")
    assert wanted.interfaces == ("mesh0",)


def test_what_the_configuration_names_is_found_and_a_wildcard_in_it_is_none() -> None:
    found = {
        "paths": {"state": "/srv/*"},
        "zeroize": {"also": ["private", "/etc/swanctl/private/", 4]},
        "access": {"radio": {"interface": "ap0"}},
        "ike": {"pluto": "/run/other/pluto.ctl", "vici": "/run/vici"},
    }
    wanted = targets(SYSTEM_CONFIG, found)
    assert wanted.patterns[0] == "/srv/[*]/node.key"
    assert wanted.also == ("/etc/meshsec/private", "/etc/swanctl/private")
    assert wanted.interfaces == ("ap0",)
    assert wanted.ike_sockets == ("/run/vici", "/run/other/pluto.ctl")
    assert {*wanted.ike_sockets} <= {*wanted.sockets}
    assert "/run/other/meshsec-*.secrets" in wanted.patterns


def test_an_unreadable_configuration_means_all_radios() -> None:
    assert targets(SYSTEM_CONFIG, {}).interfaces == ("*",)

"""A node of the lab has a signer exactly where its router's configuration asks for signatures."""

from pathlib import Path

import pytest

from tests.lab.node.daemons import Daemons, signer_of
from tests.lab.node.options import Options, configuration

SIGNER = "/run/x/sign.sock"


@pytest.mark.parametrize(
    ("text", "socket"),
    [
        (f'signatures = "prefer"\nsigner = "{SIGNER}"', SIGNER),
        (f'signatures = "require"\nsigner = "{SIGNER}"', SIGNER),
        (f'signatures = "off"\nsigner = "{SIGNER}"', None),
        ('signatures = "require"\nsigner = "off"', None),
        (f'signer = "{SIGNER}"', None),
        ("", None),
    ],
)
def test_a_router_that_signs_names_its_signer(text: str, socket: str | None) -> None:
    assert signer_of(text) == socket


@pytest.mark.parametrize("signs", [True, False])
def test_the_signer_has_the_nodes_key_and_the_socket_that_the_router_asks_at(tmp_path: Path, signs: bool) -> None:
    config = tmp_path / "etc/meshsec.toml"
    config.parent.mkdir()
    config.write_text(configuration("a", 1, Options(), ["mesh-b"], tmp_path), encoding="utf-8")
    exported = tmp_path / "exported"
    exported.write_text(f'signatures = "prefer"\nsigner = "{SIGNER}"\n' if signs else "", encoding="utf-8")
    daemons = Daemons("nowhere", config.parent, tmp_path, tmp_path)
    daemons.make(Options(), config, lambda _: exported)
    signer = daemons.get("signer")
    assert (signer is not None) == signs
    if signer is not None:
        expected = {"--key": tmp_path / "var/node.key", "--counter": tmp_path / "var/counter", "--socket": SIGNER}
        assert dict(zip(signer.argv[1::2], signer.argv[2::2], strict=True)) == {
            option: str(value) for option, value in expected.items()
        }

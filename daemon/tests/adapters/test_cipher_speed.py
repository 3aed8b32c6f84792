"""The ciphers are measured once for a processor and a library."""

import json
from pathlib import Path

import pytest

from meshsec.adapters.ike import cipher_speed
from meshsec.core.policy.esp_rank import STRENGTH


def test_what_was_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state/ciphers.json"
    first = cipher_speed.rates(path)
    assert first.keys() == STRENGTH.keys()
    assert all(rate > 100_000 for rate in first.values()), "octets a second: any processor does more"
    monkeypatch.setattr(cipher_speed, "_measured", None)
    assert cipher_speed.rates(path) == first


@pytest.mark.parametrize(
    "spoilt", ["", "{", '{"rates": {}}', '{"processor": "", "library": "", "rates": {"aes256gcm16": "fast"}}']
)
def test_what_is_none_of_ours_is_measured_again(tmp_path: Path, spoilt: str) -> None:
    path = tmp_path / "ciphers.json"
    path.write_text(spoilt)
    found = cipher_speed.rates(path)
    assert json.loads(path.read_text())["rates"] == found


@pytest.mark.parametrize("field", ["processor", "library"])
def test_another_processor_or_library_is_measured_again(tmp_path: Path, field: str) -> None:
    path = tmp_path / "ciphers.json"
    cipher_speed.rates(path)
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, field: "another", "rates": dict.fromkeys(STRENGTH, 1.0)}))
    assert min(cipher_speed.rates(path).values()) > 1.0
    assert json.loads(path.read_text())[field] == kept[field] != "another"


def test_where_it_cannot_be_kept_it_is_measured_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    assert cipher_speed.rates(tmp_path / "file/ciphers.json").keys() == STRENGTH.keys()
    assert "measured again at the next start" in caplog.text

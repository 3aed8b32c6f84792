"""The commands, on the configurations of Debian's kernels as shipped (tests/vectors/kernel)."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kernelconfig import files
from kernelconfig.__main__ import main
from kernelconfig.fragments import Want
from kernelconfig.syntax import written

VECTORS = Path(__file__).parents[2] / "tests/vectors/kernel"
EXPECTED = json.loads((VECTORS / "expected.json").read_text(encoding="utf-8"))


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def _symbols(report: dict[str, Any], severity: str) -> list[str]:
    return sorted(finding["symbol"] for finding in report["findings"] if finding["severity"] == severity)


@pytest.mark.parametrize("name", EXPECTED)
def test_debians_kernels_get_the_expected_verdicts(name: str) -> None:
    result = _run("check", "--json", VECTORS / f"config-{name}.gz")
    report = json.loads(result.stdout)
    expected = EXPECTED[name]
    assert result.exit_code == expected["exit"]
    assert (report["version"], report["kernel"], report["passed"]) == (1, expected["kernel"], expected["exit"] == 0)
    for severity in ("required", "risky", "recommended"):
        assert _symbols(report, severity) == expected[severity], severity
    assert all(finding["reason"] and finding["feature"] for finding in report["findings"])


@pytest.mark.parametrize(
    "want", [want for want in files.read_fragments() if want.severity == "required"], ids=lambda want: want.symbol
)
def test_each_required_symbol_alone_makes_the_difference(want: Want, tmp_path: Path) -> None:
    text = gzip.decompress((VECTORS / "config-6.12.117+deb13-rt-amd64.gz").read_bytes()).decode()
    spoiled = written(want.symbol, "y" if want.value == "n" else "n")
    config = tmp_path / "config"
    config.write_text(f"{text}\n{spoiled}\n", encoding="utf-8")
    result = _run("check", "--json", config)
    assert result.exit_code == 1
    assert _symbols(json.loads(result.stdout), "required") == [f"CONFIG_{want.symbol}"]


def test_the_gravest_findings_come_first() -> None:
    report = json.loads(_run("check", "--json", VECTORS / "config-6.12.117+deb13-cloud-amd64.gz").stdout)
    ranks = [("required", "risky", "recommended").index(finding["severity"]) for finding in report["findings"]]
    assert ranks == sorted(ranks)
    assert set(ranks) == {0, 1, 2}


def test_the_table_says_what_a_cloud_kernel_cannot_give() -> None:
    result = _run("check", VECTORS / "config-6.12.117+deb13-cloud-amd64.gz")
    assert "failed: this kernel cannot give: 802.11s interfaces; SAs on time" in result.stdout
    assert "MAC80211_MESH" in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"CONFIG_A=y\nCONFIG_B=maybe\n",
            ":2: 'CONFIG_B=maybe' is not allowed here; allowed is CONFIG_NAME=y|m|number",
        ),
        (b"CONFIG_A=y\nhello\n", ":2: 'hello' is not allowed here"),
        (b"CONFIG_A=y\n# \xff\n", ":2: octet 0xff is not UTF-8"),
        (b"# nothing\n", ": no line assigns a CONFIG_ symbol; this is not a kernel's configuration"),
        (b"", ": no line assigns a CONFIG_ symbol"),
        (gzip.compress(b"CONFIG_A=y\n" * 1000, mtime=0)[:-10], ": Compressed file ended"),
        (gzip.compress(bytes(5 << 20), mtime=0), ": is longer than 4194304 octets"),
        (b"\x1f\x8bnonsense", ": "),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_its_line(content: bytes, message: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_bytes(content)
    _assert_refused(["check", str(config)], f"{config}{message}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    _assert_refused(["check", str(tmp_path / "none")], f"{tmp_path}/none: No such file or directory")
    _assert_refused(["check", str(tmp_path)], f"{tmp_path}: Is a directory")


def test_the_running_kernel_is_the_default_and_its_missing_configuration_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    _assert_refused(["check"], "the running kernel's configuration is neither at /proc/config.gz nor /boot/config-")


def _assert_refused(arguments: Sequence[str], message: str) -> None:
    result = _run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"kernelconfig: {message}")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Give a kernel's source that defines every wanted symbol, each depending on GROUND."""
    entries = [f"config {want.symbol}\n\tbool\n\tdepends on GROUND\n" for want in files.read_fragments()]
    (tmp_path / "Kconfig").write_text("".join([*entries, "config GRIP\n\tbool\n\tselect KEXEC\n"]), encoding="utf-8")
    return tmp_path


def _merged(**changed: str) -> str:
    values = {want.symbol: want.value for want in files.read_fragments()} | changed
    return "".join(f"{written(symbol, value)}\n" for symbol, value in values.items())


def test_a_complete_merge_is_reported(source: Path) -> None:
    config = source / ".config"
    config.write_text(_merged(), encoding="utf-8")
    result = _run("taken", config, source)
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"PREEMPT_RT": "n"}, "CONFIG_PREEMPT_RT=y (it is n): unmet: GROUND"),
        ({"PREEMPT_RT": "n", "GROUND": "y"}, "CONFIG_PREEMPT_RT=y (it is n): its own conditions are met"),
        ({"KEXEC": "y", "GRIP": "y"}, "# CONFIG_KEXEC is not set (it is y): selected by GRIP"),
    ],
)
def test_a_symbol_that_did_not_take_is_reported_with_its_cause(
    source: Path, changed: dict[str, str], cause: str
) -> None:
    config = source / ".config"
    config.write_text(_merged(**changed), encoding="utf-8")
    result = _run("taken", config, source)
    assert result.exit_code == 1
    assert cause in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_symbol_that_the_source_lacks_is_reported(source: Path) -> None:
    (source / "Kconfig").write_text("config OTHER\n\tbool\n", encoding="utf-8")
    config = source / ".config"
    config.write_text(_merged(PREEMPT_RT="n"), encoding="utf-8")
    assert "this kernel's source does not know the symbol" in _run("taken", config, source).stderr


def test_a_file_of_settings_is_merged_too_and_clashes_with_no_fragment(source: Path) -> None:
    config, settings = source / ".config", source / "own.config"
    config.write_text(_merged(), encoding="utf-8")
    settings.write_text("CONFIG_GRIP=y\n", encoding="utf-8")
    assert "did not take: own.config:1: CONFIG_GRIP=y (it is n)" in _run("taken", config, source, settings).stderr
    settings.write_text("# CONFIG_XFRM is not set\n", encoding="utf-8")
    result = _run("taken", config, source, settings)
    assert result.exit_code == 2
    assert "own.config:1: CONFIG_XFRM is set already at ipsec.config:" in result.stderr

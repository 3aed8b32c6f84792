"""cargo deny, pip-audit and npm ask for advisories, and a database that does not answer is not taken for a clean one.

The databases are small ones on this machine: a git repository in RustSec's form, and a server that answers as OSV and
the npm registry do.
"""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from tests.lab.basics import shell
from tests.lab.basics.places import BUILD, REPOSITORY
from tests.packages.made import AUDIT

PROGRAMS = [shutil.which("cargo-deny"), AUDIT.exists(), (BUILD / "node").exists()]
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not all(PROGRAMS), reason="not installed: cargo-deny, pip-audit or npm; fix: `make advisories`"),
]

TOOL = run_path(str(REPOSITORY / "tools/advisories"))
RUSTSEC = """```toml
[advisory]
id = "RUSTSEC-2026-9001"
package = "fastrand"
date = "2026-01-01"
aliases = ["CVE-2026-90001"]

[versions]
patched = [">= 99.0"]
```

# An invented flaw

It is there for a test.
"""
OSV = {
    "id": "PYSEC-2026-9001",
    "aliases": ["CVE-2026-90002"],
    "summary": "An invented flaw",
    "affected": [
        {
            "package": {"name": "click", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}
NPM = {
    "id": 9001,
    "url": "https://github.com/advisories/GHSA-aaaa-bbbb-cccc",
    "title": "An invented flaw",
    "severity": "high",
    "vulnerable_versions": "<99.0.0",
}
FOUND = {
    "rust": ("CVE-2026-90001", "rust: fastrand "),
    "python": ("CVE-2026-90002", "python: click "),
    "page": ("GHSA-aaaa-bbbb-cccc", "page: d3-zoom "),
}
"""Name of each database's advisory, and how the report begins."""


@dataclass
class Databases:
    """What the databases know."""

    rustsec: Path
    advisories: bool = False
    answering: bool = True
    asked: set[str] = field(default_factory=set)

    def invent(self) -> None:
        """Let each database have one advisory."""
        self.advisories = True
        file = self.rustsec / "crates/fastrand/RUSTSEC-2026-9001.md"
        file.parent.mkdir(parents=True)
        file.write_text(RUSTSEC, encoding="utf-8")
        _commit(self.rustsec)

    def cease(self) -> None:
        """Let no database answer."""
        self.answering = False
        shutil.rmtree(self.rustsec)

    def answer(self, path: str, body: bytes) -> Any:
        """Return what a server says to a question."""
        self.asked.add(path)
        if path == "/v1/query":
            package = json.loads(body)["package"]["name"]
            return {"vulns": [OSV]} if self.advisories and package == "click" else {}
        return {"d3-zoom": [NPM]} if self.advisories else {}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, databases: Databases, *arguments: Any) -> None:
        self._databases = databases
        super().__init__(*arguments)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps(self._databases.answer(self.path, body)).encode()
        self.send_response(200 if self._databases.answering else 405)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the name is the base's
        """Say nothing."""


def _commit(repository: Path) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=test", "-c", "user.email=test@localhost.invalid"]
    shell.run([*git, "add", "--all"])
    shell.run([*git, "commit", "--quiet", "--allow-empty", "--message", "advisories"])


@pytest.fixture
def databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Databases]:
    """Have the programs ask databases of this machine."""
    known = Databases(tmp_path / "rustsec")
    shell.run(["git", "init", "--quiet", "--initial-branch=main", str(known.rustsec)])
    (known.rustsec / "crates").mkdir()
    (known.rustsec / "crates/.keep").touch()
    _commit(known.rustsec)
    # The crates that are fetched already, and no database of RustSec's.
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    (tmp_path / "cargo").mkdir()
    (tmp_path / "cargo/registry").symlink_to(cargo / "registry")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, known))
    address = f"http://127.0.0.1:{server.server_port}"
    settings = {
        "CARGO_HOME": str(tmp_path / "cargo"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{known.rustsec}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/RustSec/advisory-db",
        "PIP_AUDIT_OSV_URL": f"{address}/v1/query",
        "npm_config_registry": address,
        "npm_config_fetch_retries": "0",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_nothing_is_found_where_nothing_is_known(databases: Databases, capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOL["main"]([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name}: 0 found, 0 ignored" for name in FOUND]
    assert databases.asked == {"/v1/query", "/-/npm/v1/security/advisories/bulk"}


def test_an_advisory_is_found_unless_it_is_excepted(databases: Databases, capsys: pytest.CaptureFixture[str]) -> None:
    databases.invent()
    for name, (known_as, report) in FOUND.items():
        assert TOOL["asked"](name, {"CVE-2026-1": "another"}) == 1, name
        said = capsys.readouterr().out
        assert said.startswith(report)
        assert known_as in said
        assert TOOL["asked"](name, {known_as: "not called"}) == 0, name
        assert "[ignored: not called]" in capsys.readouterr().out


def test_a_database_that_does_not_answer_is_said(databases: Databases, capsys: pytest.CaptureFixture[str]) -> None:
    databases.cease()
    for name in FOUND:
        assert TOOL["asked"](name, {}) == 2, name
        assert capsys.readouterr().out.startswith(f"{name}: not known, nobody answered: ")

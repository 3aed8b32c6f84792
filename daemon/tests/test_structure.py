"""tools/check-structure: what it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/check-structure"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a small repository without complaints."""
    write(tmp_path, "daemon/meshsec/a.py", "from meshsec import b\n")
    write(tmp_path, "daemon/meshsec/b.py", "class B:\n" + methods("    def m{}(self): ...", 20))
    write(tmp_path, "daemon/crates/c/src/lib.rs", "mod a;\nmod b;\n")
    write(tmp_path, "daemon/crates/c/src/a.rs", "use crate::b::{x, y::{z}};\n")
    write(tmp_path, "daemon/crates/c/src/b.rs", "impl B {\n" + methods("    pub fn m{}() {{}}", 20) + "}\n")
    return tmp_path


def write(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def methods(form: str, count: int) -> str:
    return "".join(f"{form.format(number)}\n" for number in range(count))


def check(tree: Path) -> list[str]:
    """Return the tool's complaints."""
    done = subprocess.run([sys.executable, TOOL, tree], capture_output=True, text=True, check=False)
    complaints = done.stderr.splitlines()
    assert done.returncode == bool(complaints)
    return complaints


def test_a_tree_within_the_limits_passes(tree: Path) -> None:
    assert check(tree) == []


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("daemon/meshsec/a.py", "#\n" * 401, "a.py: 401 lines, allowed are 400"),
        ("daemon/crates/c/src/a.rs", "//\n" * 401, "a.rs: 401 lines, allowed are 400"),
        (
            "daemon/meshsec/a.py",
            "class A:\n" + methods("    async def m{}(self): ...", 21),
            "a.py:A: 21 methods, allowed are 20",
        ),
        (
            "daemon/crates/c/src/a.rs",
            "impl<T> A<T> {\n" + methods("    pub(crate) const fn m{}() {{}}", 21) + "}\n",
            "a.rs:<T> A<T>: 21 methods, allowed are 20",
        ),
        (
            "daemon/meshsec/b.py",
            "import meshsec.a\n",
            "a circle between files: daemon/meshsec/a.py daemon/meshsec/b.py",
        ),
        (
            "daemon/crates/c/src/b.rs",
            "use super::a;\n",
            "a circle between files: daemon/crates/c/src/a.rs daemon/crates/c/src/b.rs",
        ),
        (
            "daemon/crates/c/src/b.rs",
            "use crate::{x,\n    a::{y, z}};\n",
            "a circle between files: daemon/crates/c/src/a.rs daemon/crates/c/src/b.rs",
        ),
        (
            "daemon/crates/c/src/b.rs",
            "fn f() { crate::a::g() }\n",
            "a circle between files: daemon/crates/c/src/a.rs daemon/crates/c/src/b.rs",
        ),
    ],
)
def test_each_violation_is_refused_by_name(tree: Path, name: str, text: str, complaint: str) -> None:
    write(tree, name, text)
    (said,) = check(tree)
    assert said.endswith(complaint)


def test_a_child_may_use_its_parent_and_unit_tests_anything(tree: Path) -> None:
    write(tree, "daemon/crates/c/src/a.rs", "mod d;\nuse d::x;\n")
    write(tree, "daemon/crates/c/src/a/d.rs", "use super::y;\nuse crate::a::z;\n")
    write(tree, "daemon/crates/c/src/b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n")
    assert check(tree) == []

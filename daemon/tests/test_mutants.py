"""tools/mutants: how it names a change that no test noticed, and which changes make it fail."""

from pathlib import Path
from runpy import run_path
from time import monotonic

import pytest

TOOL = run_path(str(Path(__file__).parents[2] / "tools/mutants"))
DIFF = """\
--- meshsec/core/hold.py
+++ meshsec/core/hold.py
@@ -1,3 +1,3 @@
 def follow(self, now):
-    return self.until <= now
+    return self.until < now
"""
SOURCE = """\
def other(self, now):
    return self.until <= now

def follow(self, now):
    return self.until <= now
"""


def test_a_python_change_is_named_by_its_function_and_the_line_in_it() -> None:
    before, after = TOOL["changed"](DIFF)
    assert (before, after) == ("return self.until <= now", "return self.until < now")
    assert TOOL["line_of"](SOURCE, "Hold.follow", before) == 5


@pytest.mark.parametrize(
    ("name", "function"), [("x_f__mutmut_1", "f"), ("x__f__mutmut_20", "_f"), ("xǁClassǁ_f__mutmut_3", "Class._f")]
)
def test_a_mutant_of_a_private_function_has_its_name(name: str, function: str) -> None:
    assert TOOL["split_name"](f"meshsec.core.hold.{name}") == ("meshsec.core.hold", function)


def test_a_rust_change_keeps_its_name_when_the_lines_before_it_move() -> None:
    here, moved = (
        TOOL["rust_survivor"](f"crates/a/src/b.rs:{line}:5: replace a::b -> bool with true") for line in (7, 9)
    )
    assert (here.file, here.line) == ("daemon/crates/a/src/b.rs", 7)
    assert here.key == moved.key == "daemon/crates/a/src/b.rs: replace a::b -> bool with true"


def test_only_a_survivor_without_a_reason_counts() -> None:
    known, new = (TOOL["Survivor"]("a.py", 1, change) for change in ("f: x -> y", "f: x -> z"))
    reports = {"python": TOOL["Report"](9, 8, [known, new])}
    reviewed = {"a.py: f: x -> y": "the same value"}
    assert TOOL["unexplained"](reports, reviewed) == [new]
    head, line, named = TOOL["table"](reports, reviewed)
    assert dict(zip(head.split(), map(int, line.split()[1:]), strict=True)) == {
        "mutants": 9, "tried": 8, "killed": 6, "survived": 2, "reviewed": 1,
    }  # fmt: skip
    assert named == "a.py:1: f: x -> z"


def test_a_pattern_that_names_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TOOL["MutantsError"], match=r"tools/mutants\.json: python\.modules: 'gone/\*\.py' names no file"
    ):
        TOOL["files"]("python.modules", tmp_path, ["gone/*.py"])


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    names = [str(number) for number in range(10)]
    first, again, other = (list(TOOL["chunks"](names, 4, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(name for chunk in first for name in chunk) == names


def test_a_tool_that_fails_is_no_success(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(TOOL["MutantsError"], match="ended with status 4"):
        TOOL["run"](["sh", "-c", "echo why; exit 4"], tmp_path, log, monotonic() + 60, (0,))
    assert log.read_text() == "why\n"


def test_a_tool_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    TOOL["run"](["sleep", "60"], tmp_path, tmp_path / "log", monotonic(), (0,))


@pytest.mark.parametrize(
    ("change", "is_words"),
    [
        ('f: x = "a rule" -> x = "A RULE"', True),
        ('f: raise E("it is bad") -> raise E("XXit is badXX")', True),
        ('f: raise E("it is bad") -> raise E(None)', True),
        ("f: x = a - b -> x = a + b", False),
        ('f: x = "a" -> x = ""', False),
    ],
)
def test_a_text_in_other_letters_needs_no_test(change: str, is_words: bool) -> None:
    assert TOOL["only_words"](change) is is_words

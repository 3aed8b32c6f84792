"""Files that ``ipsec.conf`` includes: their order, and limits on their number and size."""

import os
from pathlib import Path

import pytest

from meshsec.adapters.ike import ipsec_conf_file
from meshsec.core.formats.ipsec_conf import IpsecConfError


def test_included_files_stand_where_they_are_named_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/2.conf").write_text("two")
    (tmp_path / "d/1.conf").write_text("one\nmore")
    (tmp_path / "d/.hidden.conf").write_text("not me")
    (tmp_path / "x.conf").write_text(f"before\ninclude d/*.conf\ninclude {tmp_path}/absent\n\tinclude = a value\nafter")
    lines = [(Path(line.file).name, line.number, line.text) for line in ipsec_conf_file.load(tmp_path / "x.conf")]
    assert lines == [
        ("x.conf", 1, "before"),
        ("1.conf", 1, "one"),
        ("1.conf", 2, "more"),
        ("2.conf", 1, "two"),
        ("x.conf", 4, "\tinclude = a value"),
        ("x.conf", 5, "after"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\ninclude x.conf", "x.conf:2: include: more than 8 files"),
        ("include", "x.conf:1: include: allowed: one name"),
        ("include a b", "x.conf:1: include: allowed: one name"),
        ("include a\0b", "x.conf:1: include: allowed: one name"),
        ("include d", "d: Is a directory"),
        ("include pipe", "pipe: is no regular file"),
        ("\n" * (ipsec_conf_file.MOST_LINES + 1), "more than 20000 lines"),
        ("#" * (ipsec_conf_file.MOST_OCTETS + 1), "is longer than"),
        ("include *\ninclude *\n", "more than"),
    ],
)
def test_includes_that_are_too_many_too_long_or_no_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "pipe")
    if "*" in text:
        (tmp_path / "d").rmdir()
        (tmp_path / "pipe").unlink()
    (tmp_path / "x.conf").write_text(text)
    with pytest.raises(IpsecConfError) as refused:
        ipsec_conf_file.load(tmp_path / "x.conf")
    assert told in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(IpsecConfError, match=r"x\.conf: No such file"):
        ipsec_conf_file.load(tmp_path / "x.conf")

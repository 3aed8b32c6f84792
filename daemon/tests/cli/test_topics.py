"""`meshsec help` prints the documents of the package."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from meshsec.cli import main, topics

DOCS = Path(__file__).parents[3] / "docs"


def run(*argv: str) -> Result:
    return CliRunner().invoke(main, ["help", *argv])


def test_each_document_for_readers_is_a_topic_with_its_title() -> None:
    shown = run().output
    listed = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith("  ")]
    documents = [path for room in ("guide", "reference", "explanation") for path in (DOCS / room).glob("*.md")]
    titles = [path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in documents]
    assert sorted(title for _, title in listed) == sorted(titles)
    assert {topic.rpartition("/")[2] for topic, _ in listed} == {path.stem for path in documents}
    assert "radio" in shown
    assert "Bring a radio into the mesh" in shown
    assert "rfc-coverage" not in shown


@pytest.mark.parametrize("topic", sorted(path.stem for path in (DOCS / "guide").glob("*.md")))
def test_a_document_is_printed_for_a_terminal(topic: str) -> None:
    done = run(topic)
    assert done.exit_code == 0
    text = (DOCS / "guide" / f"{topic}.md").read_text(encoding="utf-8")
    assert done.output.startswith(text.partition("\n")[0].removeprefix("# "))
    lines = done.output.splitlines()
    assert not [line for line in lines if line.startswith(("#", "```")) or "](" in line]


def test_a_name_that_two_rooms_have_is_a_topic_of_each() -> None:
    for topic, path in (("systemd", "guide/systemd"), ("reference/systemd", "reference/systemd")):
        title = (DOCS / f"{path}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        assert run(topic).output.startswith(title)


def test_commands_stay_as_they_are() -> None:
    assert "\n    # systemctl restart meshsec-ike meshsecd olsrv2d\n" in run("links").output
    assert "**" not in run("links").output


def test_a_topic_that_is_none_is_answered_by_the_nearest() -> None:
    refused = run("linkz")
    assert refused.exit_code == 2
    assert "there is no document about 'linkz'. Perhaps 'links' is meant. `meshsec help` lists the topics" in (
        refused.output
    )


def test_without_documents_it_says_where_they_were_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(topics, "DIRECTORIES", (tmp_path / "source", tmp_path / "installed"))
    refused = run("links")
    assert refused.exit_code == 1
    assert f"looked for in {tmp_path / 'installed'}" in refused.output
    assert "--reinstall meshsec" in refused.output

"""``python -m tests.demo``: see ``make demo``."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console

from tests.demo.screen import WIDTH, save_svg
from tests.demo.story import Demo, shape
from tests.lab.basics.places import BUILD
from tests.lab.basics.programs import ProgramMissingError
from tests.lab.basics.shell import CommandError
from tests.lab.lab import Lab
from tests.lab.net.instance import end_kept
from tests.lab.net.topology import names

REPORT = BUILD / "demo" / "report.json"


@click.command
@click.option("--nodes", type=click.IntRange(3, 26), default=3, show_default=True, help="Nodes in the line.")
@click.option("--keep", is_flag=True, help="Leave the mesh running.")
@click.option("--end", is_flag=True, help="End what --keep left running, and do nothing else.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Save a picture of the last screen.")
def main(nodes: int, keep: bool, end: bool, svg: Path | None) -> None:
    """A mesh that secures itself."""
    if end:
        click.echo(f"ended: {', '.join(end_kept()) or 'nothing was running'}")
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    members = names(nodes)
    try:
        with Lab("demo", shape(members)) as lab:
            ok = _tell(Demo(lab, members, console), console, svg)
            if keep:
                lab.keep()
                _show_around(lab, console)
    except (ProgramMissingError, CommandError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if ok else 1)


def _tell(demo: Demo, console: Console, svg: Path | None) -> bool:
    """Run the demo, write its report and show the summary. Return whether all is well."""
    try:
        report = demo.run()
    except AssertionError as error:
        console.print(f"[red]failed:[/red] {error}\nlogs and captures: {demo.lab.save_artifacts()}")
        demo.report.broken_off = str(error)
        report = demo.report
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    summary = demo.summary()
    console.print(summary)
    console.print(f"report: {REPORT.relative_to(BUILD.parent)}")
    if svg:
        save_svg(summary, svg)
    return not report.problems()


def _show_around(lab: Lab, console: Console) -> None:
    node = lab["a"]
    console.print(
        "\nIt is still running. Look around:\n"
        f"  ip netns exec {node.namespace} .venv/bin/meshsec --config {node.config} status\n"
        f"  ip netns exec {lab['b'].namespace} tcpdump -ni any\n"
        "End it:\n  .venv/bin/python -m tests.demo --end",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()

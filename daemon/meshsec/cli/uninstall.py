"""``meshsec uninstall``: say what stays on this machine when meshsec goes, and undo it."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import systemd
from meshsec.adapters.files import drop_in_files, sysctl_d
from meshsec.adapters.kernel import netlink
from meshsec.adapters.radio import nl80211
from meshsec.adapters.systemd import SystemdError
from meshsec.agent.sides import radios
from meshsec.cli import hosts
from meshsec.cli.app import FAILED, App
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.leftovers import Survey
from meshsec.core.uninstall import plan
from meshsec.core.uninstall.plan import Facts
from meshsec.core.uninstall.steps import LeaveMesh, Remove, Run, SetSysctl, Step, TakeNames

SYSTEM_CONFIG = Path("/etc/meshsec/meshsec.toml")
"""The configuration of the units. Everything here is the machine's, and so its node's alone."""
_FAILURES = (OSError, SystemdError, files.FileError, click.ClickException)


@dataclass(frozen=True, slots=True)
class _Scope:
    """How much is undone."""

    command: str
    phases: tuple[Callable[[Facts], tuple[Step, ...]], ...]
    """Functions of the steps. The machine is looked at before each one."""
    staying: Callable[[Facts], Iterator[str]]

    def steps(self, facts: Facts) -> list[Step]:
        return [step for phase in self.phases for step in phase(facts)]


_ALL = _Scope("meshsec uninstall", (plan.ending, plan.undoing), plan.staying)
_OTHERS = _Scope("meshsec uninstall --others", (plan.giving_back,), plan.disabled)


@click.command
@click.option("--yes", is_flag=True, help="Do it. Without this option the command only says what it would do.")
@click.option(
    "--others",
    is_flag=True,
    help="Only what concerns other programs: names in /etc/hosts, and the IKE daemon that `meshsec up` disabled.",
)
@click.pass_obj
def uninstall(app: App, yes: bool, others: bool) -> None:
    """Say what stays on this machine when meshsec goes, and undo it.

    Run it before `apt remove`: daemons, rules, addresses, routes, sysctls, names, drop-ins, and the IKE daemon that
    `meshsec up` disabled. What others own stays as it is, and so do the node's key and the cards. The rules go last;
    user data leaves in the clear from then on. Exit status 1 says that something could not be undone, and what.

    `apt remove` itself does what --others does, which opens nothing.
    """
    if os.geteuid() != 0:
        raise click.ClickException("only root sees all of it, and may undo it: `sudo meshsec uninstall`")
    if app.config.absolute() != SYSTEM_CONFIG:
        raise click.ClickException(f"this is about the machine's own node, whose configuration is {SYSTEM_CONFIG}")
    scope = _OTHERS if others else _ALL
    failures = _undo(app, scope) if yes else _say(app, scope)
    for failure in failures:
        click.echo(f"FAILED: {failure}", err=True)
    if failures:
        sys.exit(FAILED)


def _say(app: App, scope: _Scope) -> list[str]:
    """Print the steps. Return what could not be looked at."""
    survey = Survey(app)
    steps = scope.steps(survey.facts)
    for step in steps:
        click.echo(str(step))
    _say_what_stays(survey, scope)
    click.echo(f"`{scope.command} --yes` does this." if steps else "There is nothing to undo.")
    return survey.problems


def _say_what_stays(survey: Survey, scope: _Scope) -> None:
    for line in scope.staying(survey.facts):
        click.echo(line)


def _refuse_what_comes_back(socket: Path) -> None:
    """Without systemd nobody ends meshsecd here, and it would set all of it again. Raises ClickException."""
    if systemd.is_booted():
        return
    try:
        with Client(socket) as client:
            client.call("status")
    except DaemonAbsentError:
        return
    raise click.ClickException("meshsecd runs and would set all of it again; end it and the other daemons, then retry")


def _undo(app: App, scope: _Scope) -> list[str]:
    """Do the steps, and look again whether they had their effect. Return what failed."""
    failed: dict[Step, str] = {}
    problems: list[str] = []
    for phase in scope.phases:
        survey = Survey(app)
        if phase is plan.ending:
            _refuse_what_comes_back(survey.socket)
        problems = survey.problems
        _do(phase(survey.facts), failed)
    after = Survey(app)
    _say_what_stays(after, scope)
    left = [step for step in scope.steps(after.facts) if step not in failed]
    return [
        *dict.fromkeys([*problems, *after.problems]),
        *(f"{step}: {why}" for step, why in failed.items()),
        *(f"{step}: it is needed (again) after all has been done" for step in left),
    ]


def _do(steps: Iterable[Step], failed: dict[Step, str]) -> None:
    """Do each step, whatever becomes of those before it."""
    for step in steps:
        if isinstance(step, Remove) and failed.keys() & {*step.after}:
            failed[step] = "it stays, so that another run can do what failed"
            continue
        try:
            _carry_out(step)
        except _FAILURES as error:
            failed[step] = error.message if isinstance(error, click.ClickException) else str(error)
        else:
            click.echo(f"done: {step}")


def _carry_out(step: Step) -> None:
    match step:
        case Run(argv=argv):
            systemd.run(*argv)
        case Remove(path=path):
            drop_in_files.remove(Path(path))
        case TakeNames():
            hosts.take_out()
        case LeaveMesh(interface=interface):
            asyncio.run(_leave_mesh(interface))
        case SetSysctl(change=change):
            sysctl_d.put(change)


async def _leave_mesh(interface: str) -> None:
    async with nl80211.opened() as stack:
        if stack is None:
            return
        own, _ = await radios.interface(stack, interface)
        await stack.leave(own.index)
        await netlink.set_link(own.index, up=False)
        await stack.set_type(own.index, "managed")

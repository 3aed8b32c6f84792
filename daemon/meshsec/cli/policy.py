"""``meshsec policy``: which profiles there are, what is in them, and what their proposals are."""

from collections.abc import Mapping
from pathlib import Path

import click

from meshsec.adapters.files import config_file
from meshsec.adapters.kernel import processor
from meshsec.cli.app import App
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.explain import levels_view, policy_view
from meshsec.core.formats import toml
from meshsec.core.policy.capability import Algorithms
from meshsec.core.policy.policy import DEFAULT, Policy

_BUILT_IN = "default"
_IN_FORCE = "[policy]"


@click.group
def policy() -> None:
    """Look at policy profiles: what is proposed, when, and what is dropped."""


@policy.command("list")
@json_option
@click.pass_obj
def list_(app: App, as_json: bool) -> None:
    """The profiles that `[policy] profile` may name, and where they are."""
    files = config_file.policies(app.config)
    found = {name: config_file.load_policy(path) for name, path in files.items()}
    found.setdefault(_BUILT_IN, DEFAULT)
    if as_json:
        profiles = [
            {"name": name, "file": _file(files, name) or None, "ike": one.ike_proposals[0], "esp": one.esp_proposals[0]}
            for name, one in found.items()
        ]
        print_json({"schema": policy_view.LIST_SCHEMA, "profiles": profiles})
        return
    rows = [(name, one.ike_proposals[0], one.esp_proposals[0], _file(files, name)) for name, one in found.items()]
    print_table(("PROFILE", "FIRST FOR IKE", "FIRST FOR ESP", "FILE"), rows)


@policy.command
@click.argument("name", required=False)
@json_option
@click.pass_obj
def show(app: App, name: str | None, as_json: bool) -> None:
    """Every setting of a profile, in a profile's form; without NAME what is in force on this node."""
    shown, file, found = _found(app, name)
    if as_json:
        print_json(policy_view.view(shown, file, found))
        return
    click.echo(f"# {shown}{f', {file}' if file else ''}")
    for key, value in policy_view.settings(found).items():
        click.echo(f"{key} = {toml.encode(value)}")


@policy.command
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.pass_obj
def check(app: App, file: Path | None) -> None:
    """Check a profile; without FILE all that this node could name. A line for each problem, and exit code 1."""
    for path in [file] if file else config_file.policies(app.config).values():
        config_file.load_policy(path)
        click.echo(f"{path}: nothing is wrong")


@policy.command
@click.argument("name", required=False)
@json_option
@click.pass_obj
def explain(app: App, name: str | None, as_json: bool) -> None:
    """What each proposal of a profile is, where it is specified, and who can do it; and what passes in the clear.

    Without NAME those that are in force on this node. Where meshsecd runs, the IKE daemon is asked what it has; for
    libreswan it is known how it says a proposal, or why it cannot.
    """
    shown, file, found = _found(app, name)
    known = _asked(app)
    if as_json:
        print_json(policy_view.view(shown, file, found, known))
        return
    for one in policy_view.proposals(found, known):
        click.secho(f"{one.kind.upper()}  {one.strongswan}", bold=True)
        for part in one.parts:
            click.echo(f"     {part.keyword}: {f'{part.is_} ({part.source})' if part.is_ else 'not known to meshsec'}")
        if one.lacks is not None:
            lacking = ", ".join(one.lacks)
            click.echo(f"     this node: {f'cannot: {lacking} is not there' if lacking else 'can'}")
        click.echo(f"     libreswan: {one.libreswan or f'cannot: {one.why_not}'}")
    for line in levels_view.policy_lines(found):
        click.echo(line)
    for exception in found.bypass:
        click.echo(f"In the clear: {exception} ({exception.reason})")
    if (aes := processor.has_aes()) is not None:
        click.echo(f"This processor has {'' if aes else 'no '}instructions for AES-GCM; esp_rank: {found.esp_rank}")


def _asked(app: App) -> Algorithms | None:
    """Return what the IKE daemon has; None where meshsecd does not know it, or does not run."""
    try:
        with Client(app.socket) as client:
            answer = client.call("algorithms")
    except DaemonAbsentError:
        return None
    known = answer["algorithms"]
    return None if known is None else frozenset(known)


def _found(app: App, name: str | None) -> tuple[str, str, Policy]:
    """Return the name to show, the file and the policy."""
    if name is None:
        return _IN_FORCE, str(app.config), app.settings.policy
    files = config_file.policies(app.config)
    if name in files:
        return name, str(files[name]), config_file.load_policy(files[name])
    if name == _BUILT_IN:
        return name, "", DEFAULT
    allowed = ", ".join(sorted({_BUILT_IN, *files}))
    raise click.ClickException(f"there is no profile {name!r}; allowed: {allowed}")


def _file(files: Mapping[str, Path], name: str) -> str:
    return str(files.get(name, ""))

"""`meshsec-update`: the command line."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path

from meshsec_update import fetch, health, install, machine, offer, store, trial
from meshsec_update.machine import RefusedError

_FAILED = 1


def main() -> int:
    """Run one command; exit with 1, and say why, when it refuses."""
    arguments = _parser().parse_args()
    try:
        status: int = arguments.run(arguments)
    except RefusedError as error:
        print(f"meshsec-update: {error}", file=sys.stderr)
        return _FAILED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="meshsec-update", description="Update this node's image.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _command(commands, _status, "status", "say which version runs, and which others can start")
    checking = _command(commands, _check, "check", "verify the update in DIRECTORY and write nothing")
    installing = _command(commands, _install, "install", "write the update in DIRECTORY beside what runs")
    for command in (checking, installing):
        command.add_argument("directory", type=Path, metavar="DIRECTORY")
    installing.add_argument("--restart", action="store_true", help="try it at once")
    _command(commands, _judge, "judge", "wait until the version that is being tried works, or should be left")
    _command(commands, _keep, "keep", "keep the version that is being tried")
    _command(commands, _offer, "offer", "give this node's update to peers; for its unit")
    _command(commands, _fetch, "fetch", "fetch an update from the nearest peer that has one; exit with 10 if one was")
    _command(commands, _take, "take", "install what was fetched")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    run: Callable[[argparse.Namespace], int],
    name: str,
    what: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    parser.set_defaults(run=run)
    return parser


def _status(_: argparse.Namespace) -> int:
    running = machine.image()
    print(f"runs      {running.version} ({running.architecture})")
    for kernel in sorted(path for path in machine.KERNELS.glob("meshsec_*.efi") if path.stat().st_size):
        print(f"can start {trial.describe(kernel)}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    found = install.check(arguments.directory)
    print(f"version {found.version} can be installed")
    return 0


def _install(arguments: argparse.Namespace) -> int:
    found = install.install(arguments.directory)
    print(f"version {found.version} is installed; it is tried at the next start: systemctl reboot")
    if arguments.restart:
        subprocess.run(["systemctl", "reboot"], check=True)
    return 0


def _judge(_: argparse.Namespace) -> int:
    return trial.judge()


def _keep(_: argparse.Namespace) -> int:
    trial.keep()
    return 0


def _offer(_: argparse.Namespace) -> int:
    address = IPv6Address(health.status()["node"]["address"])
    offer.Server(address, store.newest).serve_forever()
    return 0


def _fetch(_: argparse.Namespace) -> int:
    try:
        status = health.status()
    except RefusedError as error:
        print(f"nobody was asked: {error}")  # Nothing has failed: it is asked again later.
        return 0
    found = fetch.fetch(status, machine.image(), fetch.FOLDER, machine.slot_size())
    if found is None:
        print("no peer has an update for this node")
        return 0
    print(f"version {found.name} is in {found}")
    return fetch.FETCHED


def _take(_: argparse.Namespace) -> int:
    fetch.forget_useless(fetch.FOLDER, machine.image())
    for directory in sorted(fetch.FOLDER.iterdir()):
        found = install.install(directory, again=False)
        shutil.rmtree(directory)
        print(f"version {found.version} is installed; it is tried at the next start")
    return 0


if __name__ == "__main__":
    sys.exit(main())

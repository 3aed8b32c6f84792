"""The root of the command line: global options, the list of commands and how failures are reported.

A command's module is imported when the command is called, so that each pays for what it uses only.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from meshsec.core.config.settings import Settings
    from meshsec.core.values.model import Card

FAILED = 1
DEGRADED = 3

COMMANDS = {
    "up": "up:up",
    "init": "setup:init",
    "key": "key:key",
    "peer": "peer:peer",
    "fleet": "fleet:fleet",
    "status": "views:status",
    "topology": "topology:topology",
    "plan": "views:plan",
    "explain": "views:explain",
    "ip": "names:ip",
    "ping": "names:ping",
    "ssh": "names:ssh",
    "mode": "mode:mode",
    "threat": "threat:threat",
    "secret": "secret:secret",
    "backup": "backup:backup",
    "restore": "restoring:restore",
    "zeroize": "zeroize:zeroize",
    "alive": "zeroize_watch:alive",
    "uninstall": "uninstall:uninstall",
    "gateway": "gateway:gateway",
    "clients": "clients:clients",
    "services": "services:services",
    "position": "position:position",
    "page": "page:page",
    "doctor": "doctor:doctor",
    "drift": "drift:drift",
    "check": "check:check",
    "policy": "policy:policy",
    "watch": "watch:watch",
    "monitor": "monitor:monitor",
    "air": "air.command:air",
    "bench": "bench.command:bench",
    "leaktest": "leaktest:leaktest",
    "export": "export:export",
    "import": "importing:import_",
    "hosts": "hosts:hosts",
    "dns-sd": "dns_sd:dns_sd",
    "help": "topics:help_",
    "version": "version:version",
}
"""Module (below this package) and attribute of each command, in the order of use."""


@dataclass
class App:
    """What all commands share: where the configuration and the daemon are."""

    config: Path
    socket_option: Path | None

    @cached_property
    def settings(self) -> "Settings":
        """The configuration. Raises ConfigError."""
        return import_module("meshsec.adapters.files.config_file").load(self.config)  # type: ignore[no-any-return]

    @cached_property
    def card(self) -> "Card":
        """This node's card. Raises KeyStoreError."""
        public_key = import_module("meshsec.adapters.files.key_store").load_public(Path(self.settings.paths.key))
        return self._made(public_key)

    @cached_property
    def next_card(self) -> "Card | None":
        """That of the key which is to take the place of this node's (ADR 0041). Raises KeyStoreError."""
        store = import_module("meshsec.adapters.files.key_store")
        path = store.next_path(Path(self.settings.paths.key))
        if not import_module("meshsec.files").exists(path):
            return None
        return self._made(store.load_public(path))

    def _made(self, public_key: bytes) -> "Card":
        node, by_secret = self.settings.node, self.settings.ike.by_secret
        identity = import_module("meshsec.core.trust.identity")
        return identity.make_card(node.name, public_key, node.ipv4, by_secret=by_secret)  # type: ignore[no-any-return]

    @property
    def peers_directory(self) -> Path:
        """Where the cards of trusted peers are."""
        return Path(self.settings.paths.peers)

    @property
    def socket(self) -> Path:
        """Where meshsecd answers."""
        return self.socket_option or Path(self.settings.paths.control_socket)


def peer_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of peers that begin so, for shell completion: those with a card file, and members of fleets.

    A refused card is among them, because its peer can be removed. Without a good configuration there are none, and
    without this node's key there are no members.
    """
    app = App(ctx.find_root().params["config"], None)
    config_file = import_module("meshsec.adapters.files.config_file")
    key_store = import_module("meshsec.adapters.files.key_store")
    trust_store = import_module("meshsec.adapters.files.trust_store")
    names: set[str] = set()
    with suppress(config_file.ConfigError, key_store.KeyStoreError, trust_store.TrustStoreError):
        names |= {path.stem for path in app.peers_directory.glob("*.card")}
        names |= {name.removesuffix(trust_store.NEXT) for name in trust_store.load(app.peers_directory, app.card)[0]}
    return sorted(name for name in names if name.startswith(incomplete))


class Commands(click.Group):
    """The commands by name, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"meshsec.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            near = import_module("difflib").get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Perhaps {near[0]!r} is meant." if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Errors that meshsec defines carry a message for people; any other is a fault of ours and shows itself."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if type(error).__module__.startswith("meshsec."):
                raise click.ClickException(_told(error, ctx.find_object(App))) from error
            raise


def _told(error: Exception, app: App | None) -> str:
    """Return an error's words; where meshsecd does not answer because this node has no key yet, those about the key."""
    if app is None or not isinstance(error, import_module("meshsec.cli.client").DaemonAbsentError):
        return str(error)
    config_file = import_module("meshsec.adapters.files.config_file")
    key_store = import_module("meshsec.adapters.files.key_store")
    try:
        key_store.load_public(Path(app.settings.paths.key))
    except key_store.NoKeyError as missing:
        return f"{missing}; then `systemctl start meshsec.target` starts meshsecd"
    except (config_file.ConfigError, key_store.KeyStoreError):
        pass
    return str(error)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="MESHSEC_CONFIG",
    show_envvar=True,
    default=Path("/etc/meshsec/meshsec.toml"),
    show_default=True,
    help="The configuration file.",
)
@click.option(
    "--socket",
    "socket_option",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where meshsecd answers; without it control.sock in the directory [paths] run of the configuration.",
)
@click.version_option(package_name="meshsec", prog_name="meshsec", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context, config: Path, socket_option: Path | None) -> None:
    """Secure a mesh: trust peers by their cards, and see what protects the traffic to them.

    Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 degraded (status: a peer in reach is not protected; doctor: a
    warning; drift: a difference).
    """
    ctx.obj = App(config, socket_option)
    if os.environ.get("NO_COLOR"):
        ctx.color = False

"""charon's SAs, read from charon itself over VICI."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vici.exception import CommandException
from vici.session import Session

_VICI_TIMEOUT = 60.0


@dataclass(frozen=True)
class ChildState:
    """A CHILD_SA as charon reports it."""

    name: str
    state: str
    mode: str
    spi_in: str
    spi_out: str
    packets_in: int
    packets_out: int


@dataclass(frozen=True)
class SaState:
    """An IKE_SA as charon reports it."""

    peer: str
    unique_id: str
    state: str
    spis: tuple[str, str]
    children: tuple[ChildState, ...]
    remote_host: str = ""
    """The address to which charon sends."""
    second_secret: bool = False
    """Whether a post-quantum preshared key is mixed into its keys (RFC 8784)."""

    @property
    def installed(self) -> tuple[ChildState, ...]:
        """Return the CHILD_SAs that carry traffic."""
        return tuple(child for child in self.children if child.state == "INSTALLED")

    @property
    def child_spis(self) -> frozenset[str]:
        """Return the SPIs of the installed CHILD_SAs in both directions."""
        return frozenset(spi for child in self.installed for spi in (child.spi_in, child.spi_out))


class Charon:
    """Asks charon directly, without meshsecd."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sas(self) -> list[SaState]:
        """Return all IKE_SAs; an empty list when charon does not answer."""
        try:
            with self._session() as session:
                return [sa for entry in session.list_sas() for sa in _ike_sas(entry)]
        except (ConnectionError, FileNotFoundError, TimeoutError):
            return []

    def sas_with(self, peer: str) -> list[SaState]:
        """Return the IKE_SAs with a peer, with its present or its next key (ADR 0041)."""
        return [sa for sa in self.sas() if sa.peer.rstrip("~^") == peer]

    def terminate(self, peer: str, *, force: bool = False) -> None:
        """Close the IKE_SA with a peer without meshsecd's knowledge. ``force``: do not wait for the peer's answer."""
        message = {"ike": peer, "force": "yes", "timeout": "-1"} if force else {"ike": peer, "timeout": "30000"}
        with self._session() as session:
            for _ in session.terminate(message):
                continue

    def initiate(self, peer: str, child: str) -> None:
        """Negotiate an IKE_SA and a CHILD_SA without meshsecd's knowledge. A failure is ignored."""
        with self._session() as session, suppress(CommandException):
            for _ in session.initiate({"ike": peer, "child": child, "timeout": "30000"}):
                continue

    def rekey(self, peer: str, child: str = "") -> None:
        """Have charon rekey an IKE_SA or one of its CHILD_SAs (RFC 7296, section 1.3). Return at once."""
        with self._session() as session:
            session.rekey({"ike": peer, **({"child": child} if child else {})})

    def configure(self, name: str, connection: Mapping[str, Any]) -> None:
        """Load a connection without meshsecd's knowledge."""
        with self._session() as session:
            session.load_conn({name: connection})

    def forget(self, name: str) -> None:
        """Unload a connection without meshsecd's knowledge."""
        with self._session() as session:
            session.unload_conn({"name": name})

    def selectors(self, peer: str) -> set[str]:
        """Return the traffic selectors of all CHILD_SAs of a connection, of both ends."""
        with self._session() as session:
            found = [sa for entry in session.list_sas({"ike": peer}) for sa in entry.values()]
        children = (child for sa in found for child in sa.get("child-sas", {}).values())
        return {one.decode() for child in children for end in ("local-ts", "remote-ts") for one in child.get(end, [])}

    def wanted_selectors(self, peer: str) -> set[str]:
        """Return the traffic selectors that a connection is loaded with, of both ends."""
        with self._session() as session:
            found = [one for entry in session.list_conns({"ike": peer}) for one in entry.values()]
        children = (child for one in found for child in one.get("children", {}).values())
        return {one.decode() for child in children for end in ("local-ts", "remote-ts") for one in child.get(end, [])}

    def give_secret(self, name: str, secret: str) -> None:
        """Load a pre-shared key for all peers without meshsecd's knowledge."""
        with self._session() as session:
            session.load_shared({"id": name, "type": "IKE", "data": secret})

    def take_secret(self, name: str) -> None:
        """Unload a pre-shared key."""
        with self._session() as session:
            session.unload_shared({"id": name})

    def impersonate(self, identity: str, private_key_pem: bytes, public_key_pem: bytes, spec: Mapping[str, Any]) -> str:
        """Negotiate as somebody else, with a key and a connection of the test's own. Return charon's error, or ""."""
        with self._session() as session:
            session.load_key({"type": "any", "data": private_key_pem})
            local = {"auth": "pubkey", "id": identity, "pubkeys": [public_key_pem]}
            session.load_conn(
                {"impostor": {"version": "2", "mobike": "no", "keyingtries": "1", "local": local, **spec}}
            )
            try:
                for _ in session.initiate({"child": "impostor", "ike": "impostor", "timeout": "30000"}):
                    continue
            except CommandException as error:
                return str(error)
        return ""

    @contextmanager
    def _session(self) -> Iterator[Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_VICI_TIMEOUT)
            connection.connect(str(self._path))
            yield Session(connection)  # type: ignore[no-untyped-call]


def _ike_sas(entry: Mapping[str, Mapping[str, Any]]) -> Iterator[SaState]:
    for name, sa in entry.items():
        yield SaState(
            peer=name,
            unique_id=sa["uniqueid"].decode(),
            state=sa["state"].decode(),
            spis=(sa["initiator-spi"].decode(), sa["responder-spi"].decode()),
            children=tuple(_child(child) for child in sa.get("child-sas", {}).values()),
            remote_host=sa.get("remote-host", b"").decode(),
            second_secret=sa.get("ppk") == b"yes",
        )


def _child(child: Mapping[str, Any]) -> ChildState:
    text = {key: value.decode() for key, value in child.items() if isinstance(value, bytes)}
    return ChildState(
        name=text["name"],
        state=text["state"],
        mode=text["mode"],
        spi_in=text.get("spi-in", ""),
        spi_out=text.get("spi-out", ""),
        packets_in=int(text.get("packets-in", 0)),
        packets_out=int(text.get("packets-out", 0)),
    )

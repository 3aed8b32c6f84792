"""Encode a peer's connection for charon, and decode the connections and keys that charon reports."""

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any

from meshsec.adapters.ike.vici_fields import number, subsection, text, texts, yes
from meshsec.core.ike.drift import Configured, ConfiguredChild, second_secret_words
from meshsec.core.values.model import Authentication, ChildSpec, ConnectionSpec, Outside, SecondSecret

_SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")
"""SubjectPublicKeyInfo before the 32 bytes of an Ed25519 key (RFC 8410, section 4)."""


def message(spec: ConnectionSpec) -> dict[str, Any]:
    """Return the content of ``load-conn`` for one peer."""
    return {**_in_the_mesh(spec), **(_over_the_internet(spec.outside) if spec.outside else {})}


def _over_the_internet(outside: Outside) -> dict[str, Any]:
    """Return what a link over the internet has instead.

    It never counts as a duplicate, so that neither end's INITIAL_CONTACT closes the SAs of its other uplinks.
    """
    return {
        "local_addrs": list(outside.local),
        "remote_addrs": list(outside.remote),
        "dpd_delay": str(outside.dpd_delay),
        "unique": "never",
    }


def _in_the_mesh(spec: ConnectionSpec) -> dict[str, Any]:
    return {
        "version": "2",
        "local_addrs": [str(spec.local_address)],
        "remote_addrs": [str(spec.remote_address)],
        "proposals": list(spec.ike_proposals),
        "encap": yes(spec.encapsulate),
        # No MOBIKE: an SA is bound to stable addresses.
        "mobike": "no",
        # No dead peer detection: a partition must not end the SA.
        "dpd_delay": "0",
        "keyingtries": "1",
        # The INITIAL_CONTACT of a restarted peer removes its old SAs. With "replace", two ends that start at once would
        # delete each other's SA. Both ends choose the same one instead (core/channels/reconcile.py).
        "unique": "no",
        "rekey_time": str(spec.ike_rekey_time),
        **(_second_secret(spec.second_secret) if spec.second_secret else {}),
        "local": _end_message(spec.local_id, spec.local_public_key, spec.authentication),
        "remote": _end_message(spec.remote_id, spec.remote_public_key, spec.authentication),
        "children": {child.name: _child_message(child, spec) for child in spec.children},
    }


def _second_secret(second: SecondSecret) -> dict[str, Any]:
    """Return how a pair uses its second secret: as a PPK (RFC 8784)."""
    return {"ppk_id": second.id, "ppk_required": yes(second.required)}


def _end_message(identity: IPv6Address, public_key: bytes, authentication: Authentication) -> dict[str, Any]:
    if authentication is Authentication.SECRET:
        return {"auth": "psk", "id": str(identity)}
    return {"auth": "pubkey", "id": str(identity), "pubkeys": [_public_key(public_key)]}


def _child_message(child: ChildSpec, spec: ConnectionSpec) -> dict[str, Any]:
    return {
        "mode": child.mode,
        "local_ts": [str(network) for network in child.local_ts],
        "remote_ts": [str(network) for network in child.remote_ts],
        "esp_proposals": list(child.esp_proposals),
        "rekey_time": str(spec.child_rekey_time),
        "replay_window": str(spec.replay_window),
        "copy_dscp": str(spec.copy_dscp),
        # Only meshsecd decides when an SA is made.
        "start_action": "none",
        "close_action": "none",
        "dpd_action": "none",
    }


def _public_key(raw: bytes) -> bytes:
    body = b64encode(_SPKI_ED25519 + raw)
    return b"-----BEGIN PUBLIC KEY-----\n" + body + b"\n-----END PUBLIC KEY-----\n"


_AUTHENTICATION = {
    "public key": str(Authentication.SIGNATURE),
    "pre-shared key": str(Authentication.SECRET),
}


def configured(name: str, section: Mapping[str, Any]) -> Configured:
    """Decode a connection of ``list-conns``."""
    return Configured(
        name=name,
        local_addresses=texts(section, "local_addrs"),
        remote_addresses=texts(section, "remote_addrs"),
        local_id=_of_rounds(section, "local", "id"),
        remote_id=_of_rounds(section, "remote", "id"),
        local_authentication=_of_rounds(section, "local", "class"),
        remote_authentication=_of_rounds(section, "remote", "class"),
        ike_version=text(section, "version", ""),
        ike_rekey_time=number(section, "rekey_time"),
        ike_reauth_time=number(section, "reauth_time"),
        dpd_delay=number(section, "dpd_delay"),
        second_secret=_configured_second(section),
        duplicates=text(section, "unique", "").removeprefix("UNIQUE_").lower(),
        children=tuple(_configured_child(child, one) for child, one in subsection(section, "children").items()),
    )


def _configured_second(section: Mapping[str, Any]) -> str:
    if not (ppk_id := text(section, "ppk_id", "")):
        return ""
    return second_secret_words(SecondSecret(ppk_id, required=text(section, "ppk_required", "no") == "yes"))


def _of_rounds(section: Mapping[str, Any], end: str, key: str) -> str:
    """Return a value from all authentication rounds of one end (RFC 4739); there should be one round."""
    rounds = [one for name, one in section.items() if name.startswith(f"{end}-") and isinstance(one, Mapping)]
    methods = [text(one, key, "any") for one in rounds]
    return ", then ".join(_AUTHENTICATION.get(one, one) for one in methods)


def _configured_child(name: str, section: Mapping[str, Any]) -> ConfiguredChild:
    return ConfiguredChild(
        name=name,
        mode=text(section, "mode", "").lower(),
        local_ts=tuple(sorted(texts(section, "local-ts"))),
        remote_ts=tuple(sorted(texts(section, "remote-ts"))),
        rekey_time=number(section, "rekey_time"),
        close_action=text(section, "close_action", ""),
        dpd_action=text(section, "dpd_action", ""),
    )


def raw_key(certificate: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes of an Ed25519 key; empty for any other certificate."""
    octets = certificate.get("data", b"")
    is_ours = isinstance(octets, bytes) and octets.startswith(_SPKI_ED25519)
    return octets.removeprefix(_SPKI_ED25519) if is_ours else b""

"""Translate charon's names of SA states (strongSwan: ike_sa_state_names and child_sa_state_names)."""

from collections.abc import Mapping

from meshsec.core.values.sa_states import ChildSaState, IkeSaState

_OF_IKE_SA: Mapping[str, IkeSaState] = {
    "CREATED": IkeSaState.CONNECTING,
    "CONNECTING": IkeSaState.CONNECTING,
    "ESTABLISHED": IkeSaState.ESTABLISHED,
    "REKEYING": IkeSaState.REKEYING,
    "REKEYED": IkeSaState.REKEYED,
    "DELETING": IkeSaState.DELETING,
    "DESTROYING": IkeSaState.DELETING,
}
"""All states but PASSIVE, in which another node of a cluster serves the IKE_SA."""

_OF_CHILD_SA: Mapping[str, ChildSaState] = {
    "INSTALLED": ChildSaState.INSTALLED,
    "UPDATING": ChildSaState.INSTALLED,
    "REKEYING": ChildSaState.INSTALLED,
    "REKEYED": ChildSaState.REKEYED,
}
"""The states in which the kernel has both directions, and the one in which the successor carries traffic."""


def ike_sa_state(word: str) -> IkeSaState:
    """Translate charon's name of an IKE_SA state."""
    return _OF_IKE_SA.get(word, IkeSaState.OTHER)


def child_sa_state(word: str) -> ChildSaState:
    """Translate charon's name of a CHILD_SA state."""
    return _OF_CHILD_SA.get(word, ChildSaState.OTHER)

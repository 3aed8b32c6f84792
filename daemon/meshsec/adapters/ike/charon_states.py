"""charon's words for the states of SAs (strongSwan: ike_sa_state_names and child_sa_state_names)."""

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
"""All but PASSIVE, the state of an IKE_SA that another node of a cluster serves."""

_OF_CHILD_SA: Mapping[str, ChildSaState] = {
    "INSTALLED": ChildSaState.INSTALLED,
    "UPDATING": ChildSaState.INSTALLED,
    "REKEYING": ChildSaState.INSTALLED,
    "REKEYED": ChildSaState.REKEYED,
}
"""Those in which the kernel has both directions, and the one in which the successor carries."""


def ike_sa_state(word: str) -> IkeSaState:
    """Translate charon's word for the state of an IKE_SA."""
    return _OF_IKE_SA.get(word, IkeSaState.OTHER)


def child_sa_state(word: str) -> ChildSaState:
    """Translate charon's word for the state of a CHILD_SA."""
    return _OF_CHILD_SA.get(word, ChildSaState.OTHER)

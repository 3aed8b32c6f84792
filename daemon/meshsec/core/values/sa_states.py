"""The states of SAs that meshsecd distinguishes, whatever the IKE daemon calls them."""

from enum import StrEnum


class IkeSaState(StrEnum):
    """State of an IKE_SA. An adapter translates its IKE daemon's words; the values are what people are shown."""

    CONNECTING = "CONNECTING"
    """It is being negotiated, and the peer is not authenticated yet."""
    ESTABLISHED = "ESTABLISHED"
    REKEYING = "REKEYING"
    """It is established, and its successor is being negotiated."""
    REKEYED = "REKEYED"
    """Its successor has taken over its CHILD_SAs."""
    DELETING = "DELETING"
    """One end has asked for its end."""
    OTHER = "OTHER"
    """A state on which nothing is decided, or a word that the adapter does not know."""

    @property
    def is_live(self) -> bool:
        """Return whether the IKE_SA carries CHILD_SAs."""
        return self in {IkeSaState.ESTABLISHED, IkeSaState.REKEYING}

    @property
    def is_in_rekeying(self) -> bool:
        """Return whether a rekeying replaces the IKE_SA by a new one: two of a pair are no duplicates then."""
        return self in {IkeSaState.REKEYING, IkeSaState.REKEYED}


class ChildSaState(StrEnum):
    """State of a CHILD_SA. An adapter translates its IKE daemon's words; the values are what people are shown."""

    INSTALLED = "INSTALLED"
    """The kernel has it, and it carries user data, also while its successor is being negotiated."""
    REKEYED = "REKEYED"
    """Its successor carries user data in its place."""
    OTHER = "OTHER"
    """A state in which it does not carry user data, or a word that the adapter does not know."""

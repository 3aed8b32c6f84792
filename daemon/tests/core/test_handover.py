"""The change between the data planes of one peer."""

from meshsec.core.channels.handover import Handover
from meshsec.core.values.model import DataPlane


def test_of_a_withdrawn_card_only_the_mode_is_left() -> None:
    handover = Handover(DataPlane.OVERLAY, carried_since=5.0, switching=True, superseded=frozenset({"7"}))
    handover.end()
    assert handover == Handover(DataPlane.OVERLAY)


def test_the_time_since_which_the_overlay_carries_is_kept_until_it_stops() -> None:
    handover = Handover()
    for now, carries, since in ((1.0, True, 1.0), (2.0, True, 1.0), (3.0, False, None), (4.0, True, 4.0)):
        handover.follow(now, carries=carries)
        assert handover.carried_since == since

"""Doctor's checks of radios: those of the mesh, and the access point."""

from meshsec.core.explain.findings import Check, Facts, Level, judged
from meshsec.core.radio import access_point as rules
from meshsec.core.radio import plan
from meshsec.core.radio.observed import ACCESS_POINT
from meshsec.core.radio.obstacles import blocked


def radios(facts: Facts) -> list[Check]:
    """Judge the wireless mesh interfaces."""
    checks = []
    for radio in facts.radios:
        name = radio.seen.name
        amiss = plan.differences(radio.wish, radio.seen) if radio.wish else blocked(radio.seen)
        found = plan.summary(radio.seen, radio.signals, radio.rts_reason)
        fix = f"meshsec-radio --check {name}; systemctl status meshsec-radio@{name}" if radio.wish else "rfkill list"
        checks += judged(f"radio {name}", "; ".join(amiss), found, fix, Level.WARN)
        if radio.rts_reason.startswith("not measured"):
            fix = "[radio] rts_threshold = 'off', or another adapter"
            checks.append(Check(f"RTS of {name}", Level.WARN, radio.rts_reason, fix))
    return checks + _cables_beside_radios(facts)


def access_point(facts: Facts) -> list[Check]:
    """Judge the access point: whether its radio can be it, and whether it is."""
    if (found := facts.access_point) is None:
        return []
    name, title = found.wish.interface, f"access point {found.wish.interface}"
    if amiss := rules.obstacles(found.wish, found.mesh, found.radios):
        return [Check(title, Level.WARN, one.found, one.fix) for one in amiss]
    own = rules.interface(found.wish, found.radios)
    if own is None or own.type != ACCESS_POINT or not own.carrier:
        what = f"is {own.type}" if own else "does not exist yet"
        return [Check(title, Level.WARN, f"{name} {what} and serves nobody", "systemctl status meshsec-hostapd")]
    beside = f", on the radio of {found.wish.shares}" if found.wish.shares else ""
    return [Check(title, Level.OK, f"{own.frequency or found.wish.frequency} MHz{beside}")]


def _cables_beside_radios(facts: Facts) -> list[Check]:
    """Warn of a cable without a metric: it weighs more than the slowest radio (docs/reference/olsrv2d.md)."""
    if not (wireless := {radio.seen.name for radio in facts.radios}):
        return []
    found = "is no radio, and without a metric of its own the last resort beside one"
    return [
        Check(f"interface {name}", Level.WARN, found, f"[routing.interface.{name}] metric = 26, for Ethernet")
        for name in facts.unweighed
        if name not in wireless and facts.mtus.get(name) is not None
    ]

"""Judges peers and strangers: cards, authentication, and SAs that fail or carry nothing."""

from meshsec.core.explain.findings import Check, Facts, Level, judged
from meshsec.core.explain.sentences import CLOSED_BY_DOUBT


def trust(facts: Facts) -> list[Check]:
    """Judge the cards of the trust store."""
    fix = "ask the peer for its card again: `meshsec peer remove NAME`, `meshsec peer add NAME CARD`"
    closed = (CLOSED_BY_DOUBT,) if facts.closed_by_doubt else ()
    return judged("trust store", "; ".join((*facts.trust_problems, *closed)), "every card is good", fix, Level.WARN)


def claims(facts: Facts) -> list[Check]:
    """Warn of IPv4 addresses on cards that are not believed."""
    if not facts.ipv4_doubts:
        return []
    found = f"not believed, so these peers are reached by IPv6 alone: {'; '.join(facts.ipv4_doubts)}"
    fix = "ask the peer for a card with another IPv4 address, or correct mesh_prefixes in [policy] of meshsec.toml"
    return [Check("peers' IPv4 addresses", Level.WARN, found, fix)]


def names(facts: Facts) -> list[Check]:
    """Report cards that name their node otherwise than it is called here.

    Whoever adds a card chooses the name, so that alone is no fault. Where others go by the name on the card, two cards
    may have been mixed up, or a node uses the name of another.
    """
    known = sorted(facts.card_names)
    differing = [(name, said) for name, said in known if name != said]
    checks = []
    for name, said in differing:
        others = dict.fromkeys(f"peer {other}" for other, card in known if other != name and said in (other, card))
        if called := " and ".join([*(["this node"] if said == facts.own_name else []), *others]):
            found = f"the card of {name} names its node {said}, and so is {called} called: they may be mixed up"
            fix = (
                f"`meshsec peer verify {name}`: the words must be those of `meshsec key show` on the intended node; "
                f"otherwise `meshsec peer remove {name}`, `meshsec peer add {name} CARD`"
            )
            checks.append(Check("peers' names", Level.WARN, found, fix))
    chosen = ", ".join(f"{name} (on its card: {said})" for name, said in differing)
    return checks or ([Check("peers' names", Level.OK, f"called otherwise on this node: {chosen}")] if chosen else [])


def strangers(facts: Facts) -> list[Check]:
    """Warn of nodes without a card that ask for an SA."""
    daemon = facts.ike_daemon.traits
    if not daemon.names_strangers:
        why = f"only the log of {daemon.program} says who asked for an SA in vain (`journalctl -u {daemon.unit}`)"
        return [Check("strangers", Level.OK, f"not known: {why}")]
    fix = "if one of them should be a peer, add its card: `meshsec peer add NAME CARD`"
    return judged("strangers", "; ".join(facts.strangers), "nobody without a card asked for an SA", fix, Level.WARN)


def authentication(facts: Facts) -> list[Check]:
    """Warn of peers whose identity, or this node's, was not accepted."""
    if not facts.unauthenticated:
        return []
    found = f"failed with {', '.join(facts.unauthenticated)}: a key is another than on the card, or an IKE daemon"
    fix = "compare `meshsec peer show NAME` with the peer's `meshsec key show`, both ways; `meshsec peer add` renews it"
    return [Check("authentication", Level.WARN, found, fix)]


def failed(facts: Facts) -> list[Check]:
    """Warn of peers in reach that are not protected."""
    if not facts.failed:
        return []
    found = f"in reach and not protected, so no user data passes: {'; '.join(facts.failed)}"
    return [Check("failed peers", Level.WARN, found, "`meshsec explain NAME` says what was tried and what comes next")]


def lost(facts: Facts) -> list[Check]:
    """Warn of peers with an SA through which nothing comes."""
    if not facts.lost:
        return []
    found = (
        f"an SA is established and nothing comes from {', '.join(facts.lost)}, whose IKE daemon does not answer either"
    )
    fix = "`meshsec explain NAME`, `meshsec topology`: the way may lead to somebody who takes what is sent"
    return [Check("silent peers", Level.WARN, found, fix)]


def guard(facts: Facts) -> list[Check]:
    """Judge who answers first messages, and whether the guard is in force."""
    if facts.contested:
        found = f"somebody who hears this node answers in the name of {', '.join(facts.contested)}"
        fix = "`meshsec explain NAME`; this node repeats its attempts until the true answer is first"
        return [Check("first messages", Level.WARN, found, fix)]
    if facts.denied:
        found = f"this node was refused and accepted in the name of {', '.join(facts.denied)}"
        fix = "nothing, if that peer has just started or learnt of this node; otherwise somebody refuses in its name"
        return [Check("first messages", Level.WARN, found, fix)]
    counts = ", ".join(f"{name} {count}" for name, count in facts.guarded.items() if count) or "nothing"
    fine = f"they are sorted before the IKE daemon reads them; dropped so far: {counts}"
    fix = "see the log of meshsecd for nft's reason; user data is protected all the same"
    return judged("first messages", facts.guard_problem, fine, fix, Level.WARN)

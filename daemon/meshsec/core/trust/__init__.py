"""Whom a node trusts: cards, identities, fleets and the words that name a key."""

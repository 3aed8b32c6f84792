"""``meshsec air``: what happens on the air, exchange by exchange."""

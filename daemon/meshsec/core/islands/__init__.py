"""Islands of a mesh, joined over the internet: what follows from ``[[link]]`` (ADR 0066)."""

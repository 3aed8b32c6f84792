"""The names of trusted nodes."""

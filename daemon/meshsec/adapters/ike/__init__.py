"""The IKE daemons: charon by VICI, pluto by whack, and their configuration files."""

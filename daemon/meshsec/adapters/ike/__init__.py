"""The IKE daemons and their configuration files: charon through VICI, pluto through whack."""

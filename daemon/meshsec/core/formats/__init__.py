"""Text that other programs read or have written: configurations of routers, IKE daemons, chrony and cjdns."""

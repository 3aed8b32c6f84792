"""The routing daemons: olsrv2d by its change stream, olsrd2 by its telnet port."""

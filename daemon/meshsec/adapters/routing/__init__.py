"""The routing daemons: olsrv2d through its change stream, olsrd2 through its telnet port."""

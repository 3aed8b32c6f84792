"""Our own sockets: the control socket, the fleets' exchange, systemd's notifications, marked user data."""

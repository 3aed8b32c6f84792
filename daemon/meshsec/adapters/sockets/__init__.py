"""Sockets of our own: the control socket, the fleets' exchange, systemd's notifications, marked user data."""

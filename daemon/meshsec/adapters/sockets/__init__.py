"""Our own sockets: control socket, fleets' exchange, requests to join, systemd's notifications, marked user data."""

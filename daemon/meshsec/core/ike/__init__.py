"""What the agent asks of an IKE daemon and hears from it, whichever daemon that is."""

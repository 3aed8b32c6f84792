"""Scheduling profiles, and the governor that raises the IKE daemon when its deadline needs it."""

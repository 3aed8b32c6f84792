"""The demo: nodes in a line protect themselves, talk through a relay that can read nothing, and change the relay."""

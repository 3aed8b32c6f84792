"""The agent's sides. Each follows one outside system, tells the engine what happens there, and acts for the engine."""

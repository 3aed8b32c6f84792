"""The agent's sides. Each one follows an outside system, reports its events to the engine and carries out actions
there.
"""

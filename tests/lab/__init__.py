"""The lab: nodes as network namespaces, the real daemons in them, and what an observer needs to judge them.

Scenarios, benchmarks and the demo use it; it uses none of them. It needs root.
"""

"""The core of meshsecd: observe, decide, act and verify in one event loop."""

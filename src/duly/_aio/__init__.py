"""The synchronous shell, run for the tasks of an event loop."""

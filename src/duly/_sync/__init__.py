"""Performs what the protocols ask, on blocking connections."""

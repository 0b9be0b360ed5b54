"""The pure core: identity, schedules, payloads and every decision of exactly-once.

Decides from its arguments alone. Must never read a clock, the environment, a file or a
random number, log, or import a driver; zones are handed in as `ZoneInfo` objects.
"""

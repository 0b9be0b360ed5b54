"""Definitions for starters, as `duly units` prints them: what starts when, one file a starter."""

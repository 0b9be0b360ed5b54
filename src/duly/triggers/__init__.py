"""What a starter says about the nominal time, one file per starter.

Each file is a pure reading of an environment, of headers or of a context: it gives a `Start`,
None if that starter is not there, or refuses by name what it cannot read. `detect` asks those
that a process can recognise in its environment.
"""

"""One file per contender, each with the same names.

- `NAME`: for people.
- `HAS_KEY`: it refuses what was done before; one without is the floor, and the control.
- `connect(place)`: one worker's connection, in its own thread or process; raises ImportError
  where it cannot be had.
- `once(worker, name, number)`: the occurrence *name*, whose number is unique; True if it was
  applied, False for a duplicate.
- `close(worker)`.
"""

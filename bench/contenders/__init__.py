"""One file per contender, each with the same names.

- `NAME`: for people.
- `HAS_KEY`: it refuses what was done before; one without is the floor, and the control.
- `SHARES`, of some: True if what one worker put in, another may work off.
- `prepare(place)`, where it needs tables: once, before anybody connects.
- `connect(place)`: one worker's connection, in its own thread or process.
- `once(worker, name, number)`: the occurrence *name*, whose number is unique; True if it was
  applied here, False for a duplicate. A contender with a queue has `many(worker, names, numbers)`
  instead: it puts all in and works the queue off.
- `close(worker)`.
"""

"""Throw-away PostgreSQL and MariaDB servers of the tests' own.

Each lives in a temporary directory, listens on a free port of 127.0.0.1 and on a private socket,
and ends with the process that started it, however that process ends. A server that already runs on
the machine is never used, stopped or looked at.

- `postgresql.PostgresServer`, `mariadb.MariaDBServer`: one server, its life and its databases.
- `keeper`: one process per test session; starts each shared server once, for all xdist workers.
- `guard`: one process per server; ends it when its owner is gone.
- `provision.sh`: installs the servers where that is possible.

Import the modules, not this package: the guard must start in milliseconds.
"""

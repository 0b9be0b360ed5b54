"""One file per kind of connection; each performs what the shells ask, on that driver."""

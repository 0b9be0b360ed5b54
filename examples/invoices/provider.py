"""The payment provider: an HTTP server that applies each request once, by duly's inbox.

    python provider.py PORT DATABASE_FILE

The payment and the inbox's record commit together, and only then the answer leaves. So it may be
killed at any moment: a request whose answer was lost is answered again, and not applied again.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import duly


class Provider(BaseHTTPRequestHandler):
    """Answers one payment request."""

    file = ""
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            with closing(sqlite3.connect(self.file, timeout=30)) as connection, connection:
                receipt = duly.receive(
                    connection,
                    consumer="payments",
                    source="billing",
                    message_id=self.headers["Idempotency-Key"],
                    payload=body,
                )
                if receipt.is_new:
                    connection.execute(
                        "INSERT INTO payment (account, month, amount) VALUES (?, ?, ?)",
                        (body["account"], body["month"], body["amount"]),
                    )
        except duly.TransientError as error:
            self._answer(503, {"error": str(error)})
        else:
            self._answer(200, {"new": receipt.is_new})

    def _answer(self, status: int, said: object) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing: the proof counts, not the log."""


def main(port: int, file: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS payment (id INTEGER PRIMARY KEY, account TEXT NOT NULL,"
            " month TEXT NOT NULL, amount INTEGER NOT NULL)"
        )
    Provider.file = file
    ThreadingHTTPServer(("127.0.0.1", port), Provider).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

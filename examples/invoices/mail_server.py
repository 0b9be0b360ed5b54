"""The mail server: writes each mail that it accepts to a file, durably, and then says so.

    python mail_server.py PORT FILE

Killed between the two, it has a mail that its sender cannot know of: that is what mail is like.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import os
import sys
from typing import Any

from aiosmtpd.smtp import SMTP


class Mailbox:
    """Keeps a line for each mail: its Message-ID and its recipient."""

    def __init__(self, file: str) -> None:
        self._file = open(file, "a")  # noqa: SIM115 - for as long as the process lives

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        print(mail["Message-ID"], *envelope.rcpt_tos, file=self._file, flush=True)
        os.fsync(self._file.fileno())
        return "250 accepted"


async def main(port: int, file: str) -> None:
    mailbox = Mailbox(file)
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(mailbox, hostname="mail.example"), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))

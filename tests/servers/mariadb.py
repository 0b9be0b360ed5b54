"""A MariaDB server of the tests' own."""

from __future__ import annotations

import shutil
import signal
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import pymysql

from tests.servers.program import UnavailableError
from tests.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.processes import Account

# /usr/sbin is not on everybody's PATH.
PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"


class MariaDBServer(Server):
    """MariaDB with its default durability, for some hundreds of connections."""

    name = "mariadb"
    account_name = "mysql"

    @classmethod
    def scheme(cls) -> str:
        return "mariadb+pymysql"

    @classmethod
    def check_available(cls) -> None:
        _program("mariadb-install-db", "mysql_install_db")
        server = _program("mariadbd", "mysqld")
        version = subprocess.check_output([server, "--no-defaults", "--version"], text=True)
        if "MariaDB" not in version:
            raise UnavailableError(f"{server} is not MariaDB: {version.strip()}")

    def connect(self, database: str | None = None, *, autocommit: bool = False) -> Any:
        return pymysql.connect(
            host=self.address.host,
            port=self.address.port,
            user=self.address.user,
            password=self.address.password,
            database=database,
            autocommit=autocommit,
            charset="utf8mb4",
            connect_timeout=10,
        )

    def drop(self, url: str) -> None:
        database = self.database_of(url)
        with self.connect(autocommit=True) as connection, connection.cursor() as cursor:
            # A transaction left open would hold the tables' metadata locks.
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s", [database]
            )
            for (each,) in cursor.fetchall():
                self._end_connection(cursor, each)
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")

    def _create(self, database: str) -> None:
        with self.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{database}`")

    @staticmethod
    def _end_connection(cursor: Any, identity: int) -> None:
        try:
            cursor.execute(f"KILL {identity}")
        except pymysql.OperationalError as error:
            if error.args[0] != 1094:  # it has ended by itself
                raise

    def _install(self, account: Account) -> None:
        # With a folder of its own for temporary tables: a server that starts removes all that it
        # finds there, also those of another server that is at work, which then crashes.
        account.run(
            [
                *(_program("mariadb-install-db", "mysql_install_db"), "--no-defaults"),
                *(f"--datadir={self.data}", "--auth-root-authentication-method=normal"),
                *("--skip-test-db", f"--innodb-log-file-size={LOG_FILE_SIZE}"),
                f"--tmpdir={self.directory}",
            ],
            cwd=self.directory,
        )

    def _command(self) -> Sequence[str]:
        settings = {
            "bind-address": self.address.host,
            "character-set-server": "utf8mb4",
            "datadir": self.data,
            "innodb-buffer-pool-size": "64M",
            "innodb-log-file-size": LOG_FILE_SIZE,
            "max-connections": 300,
            "pid-file": self.directory / "server.pid",
            "port": self.address.port,
            "socket": self._socket,
            "tmpdir": self.directory,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [_program("mariadbd", "mysqld"), "--no-defaults", "--skip-name-resolve", *options]

    @property
    def _socket(self) -> str:
        return str(self.directory / "socket")

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _quick_signal(self) -> signal.Signals:
        return signal.SIGKILL

    def _answers(self) -> bool:
        try:
            connection = self.connect()
        except pymysql.OperationalError as error:
            if error.args[0] == 1045:  # access denied: it listens, and does not know us yet
                self._set_passwords()
            return False
        with connection, connection.cursor() as cursor:
            self._check_directory(cursor)
        return True

    def _set_passwords(self) -> None:
        """On a new data directory: root has no password yet and our account does not exist.

        Through the socket in our directory, so that a stranger on our port is never spoken to.
        """
        user, password = self.address.user, self.address.password
        try:
            connection = pymysql.connect(unix_socket=self._socket, user="root", autocommit=True)
        except pymysql.OperationalError:
            return
        with connection, connection.cursor() as cursor:
            self._check_directory(cursor)
            cursor.execute("CREATE USER %s@'%%' IDENTIFIED BY %s", [user, password])
            cursor.execute("GRANT ALL ON *.* TO %s@'%%' WITH GRANT OPTION", [user])
            cursor.execute("DROP USER IF EXISTS ''@localhost")
            cursor.execute("ALTER USER root@localhost IDENTIFIED BY %s", [password])

    def _check_directory(self, cursor: Any) -> None:
        cursor.execute("SELECT @@datadir")
        self._check_data(cursor.fetchone()[0])


LOG_FILE_SIZE = "16M"


@cache
def _program(*names: str) -> str:
    for name in names:
        if found := shutil.which(name) or shutil.which(name, path=PLACES):
            return found
    raise UnavailableError(f"no MariaDB server program ({names[0]}) is installed")

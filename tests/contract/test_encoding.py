"""A connection that sends text in another encoding than UTF-8: one key stays one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
import pytest
import sqlalchemy

import duly
from tests.contract.bank import OLD, execute

if TYPE_CHECKING:
    from tests.contract.bank import Bank

BEYOND_LATIN1 = "Жуков"
LATIN1 = {"postgresql": {"client_encoding": "latin1"}, "mariadb": {"charset": "latin1"}}


def connected(bank: Bank, **options: Any) -> Any:
    """A connection of the driver's own, made with *options*."""
    url = sqlalchemy.make_url(bank.url)
    where: dict[str, Any] = {
        "host": url.host,
        "port": url.port,
        "user": url.username,
        "password": url.password,
    }
    if bank.name == "postgresql":
        return psycopg.connect(**where, dbname=url.database, **options)
    return pymysql.connect(**where, database=url.database, **options)


def test_claim_of_a_key_that_the_encoding_cannot_carry_is_refused_and_harms_nothing(
    server_bank: Bank,
) -> None:
    """The message names the character, and the same transaction can claim another key."""
    connection = connected(server_bank, **LATIN1[server_bank.name])

    with pytest.raises(duly.UsageError, match=r"cannot carry the character '\\u0416'") as caught:
        duly.claim(connection, server_bank.occurrence(partition=BEYOND_LATIN1))
    claim = duly.claim(connection, server_bank.occurrence(partition="plain"))
    connection.commit()
    connection.close()

    assert "\n" not in str(caught.value)
    assert claim.is_new
    assert [each.partition for each in server_bank.settled] == ["plain"]


def test_start_whose_key_the_encoding_cannot_carry_is_refused_and_keeps_the_pool(
    server_bank: Bank,
) -> None:
    """An App whose connections are of another encoding says so, and goes on with other keys."""
    url = sqlalchemy.make_url(server_bank.url).update_query_dict(LATIN1[server_bank.name])
    app = server_bank.app(url)
    server_bank.define(app)

    with pytest.raises(duly.UsageError, match="cannot carry"):
        app.run(server_bank.job, OLD, partition=BEYOND_LATIN1)
    result = app.run(server_bank.job, OLD)

    assert result.outcome is duly.Outcome.APPLIED


@pytest.mark.parametrize(
    "setting",
    [
        "SET NAMES latin1",
        "SET character_set_client = latin1",
        "SET character_set_connection = latin1",
    ],
)
def test_session_that_reads_text_otherwise_than_it_is_sent_is_refused(
    mariadb_bank: Bank, setting: str
) -> None:
    """Its key for a partition would be another one, or that of two partitions."""
    connection = mariadb_bank.connect()
    execute(connection, setting)

    with pytest.raises(duly.UnsafeStorage, match="reads it as"):
        duly.claim(connection, mariadb_bank.occurrence(partition=BEYOND_LATIN1))
    assert mariadb_bank.settled == []


def test_session_that_gives_bytes_for_text_is_refused_by_its_encoding(
    postgres_bank: Bank,
) -> None:
    """A database made with SQL_ASCII is no untested server."""
    connection = connected(postgres_bank, client_encoding="sql_ascii")

    with pytest.raises(duly.UnsafeStorage, match="client_encoding is SQL_ASCII"):
        duly.claim(connection, postgres_bank.occurrence())
    connection.close()


def test_claim_while_a_copy_is_under_way_is_refused_at_once(postgres_bank: Bank) -> None:
    """It could only wait for the COPY, which waits for it."""
    connection = postgres_bank.connect()

    with (
        connection.cursor() as cursor,
        cursor.copy("COPY balance TO STDOUT"),
        pytest.raises(duly.NoTransaction, match="still under way"),
    ):
        duly.claim(connection, postgres_bank.occurrence())

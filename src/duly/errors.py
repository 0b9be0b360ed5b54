"""The public error tree, by who must act.

Decides nothing; it only names. Every error carries a stable `code`, attributes for
machines, and a one-line message that says the next step. Nothing here may import
anything else of duly.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AccessDenied", "AlreadySettled", "Busy", "CommandFailed", "CommandHeld", "ConnectionLost",
    "DatabaseNotFound", "DatabaseReadOnly", "DefinitionStale", "DestinationInvalid", "DulyError",
    "DuplicateJob", "Expired", "Fenced", "FormerlyInvalid", "HandlerInvalid", "HandlerTimeout",
    "IncomingInvalid", "InvariantBroken", "KeyInvalid", "LookupFailed", "MessageInvalid",
    "MessageParked", "MessageSettled", "MissingExtra", "NoTransaction", "NominalTimeInvalid",
    "NotDue", "NotInTransaction", "OffSchedule", "OperatorError", "PartitionsInvalid",
    "PayloadConflict", "PayloadInvalid", "PeriodChanged", "PruneRefused", "ResultInvalid",
    "ScheduleInvalid", "SchemaMissing", "SchemaNewer", "SchemaOutdated", "ScriptInvalid",
    "SignatureInvalid", "StartInvalid", "StatementFailed", "SwallowedError", "TransactionEnded",
    "TransientError", "UnknownDestination", "UnknownJob", "UnknownMessage", "UnsafeStorage",
    "UnsupportedDatabase", "UsageError", "ZoneDataOutdated",
]  # fmt: skip


class DulyError(Exception):
    """The root of everything duly raises by itself.

    Attributes:
        code: A stable word for machines; it never changes within a major version.
        details: The facts of this case, JSON-ready, by name.
    """

    code: ClassVar[str] = "duly"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = details

    @property
    def message(self) -> str:
        """The one line for a person; it says what is wrong and the next step."""
        return str(self)


# The programmer must act.


class UsageError(DulyError):
    """The call or the definition is wrong; trying again changes nothing."""

    code = "usage"


class KeyInvalid(UsageError):
    """A job name, partition, correction or key text is out of bounds or not canonical."""

    code = "key_invalid"


class IncomingInvalid(UsageError):
    """A received message has no usable id, or is not of the form that its reader reads."""

    code = "incoming_invalid"


class SignatureInvalid(IncomingInvalid):
    """A webhook that its secret did not sign, or not lately: answer it with 401."""

    code = "signature_invalid"


class PayloadInvalid(UsageError):
    """A payload cannot be fingerprinted: not JSON, too large, or a number that does not survive."""

    code = "payload_invalid"


class ResultInvalid(UsageError):
    """A handler returned what cannot be stored as JSON; its effect was rolled back."""

    code = "result_invalid"


class NominalTimeInvalid(UsageError):
    """An `at` that is naive, does not parse, or names no or several nominal times."""

    code = "nominal_time_invalid"


class OffSchedule(NominalTimeInvalid):
    """An instant that is not one of the job's nominal times, or that nothing expects."""

    code = "off_schedule"


class NotDue(UsageError):
    """A nominal time in the future: starting now would use up its key."""

    code = "not_due"


class StartInvalid(UsageError):
    """What a starter says of the nominal time does not parse, or two starters disagree."""

    code = "start_invalid"


class ScheduleInvalid(UsageError):
    """A schedule or zone that cannot be read or never fires."""

    code = "schedule_invalid"


class PartitionsInvalid(UsageError):
    """A query that fails or cannot name partitions, or a part that its job does not have."""

    code = "partitions_invalid"


class PeriodChanged(UsageError):
    """Another `period=` on a job with history: its keys would mean something else."""

    code = "period_changed"


class FormerlyInvalid(UsageError):
    """A job's names disagree with the ledger: its periods would get a second set of keys."""

    code = "formerly_invalid"


class UnknownJob(UsageError):
    """No job of that name is defined."""

    code = "unknown_job"


class DuplicateJob(UsageError):
    """One name was defined twice in one process."""

    code = "duplicate_job"


class HandlerInvalid(UsageError):
    """What was given as a handler cannot be called."""

    code = "handler_invalid"


class NoTransaction(UsageError):
    """The connection cannot carry a claim: no transaction, autocommit, or one already inside."""

    code = "no_transaction"


class NotInTransaction(NoTransaction):
    """A message was to be sent where no transaction of its occurrence is open."""

    code = "not_in_transaction"


class DestinationInvalid(UsageError):
    """A destination whose settings contradict each other, or outlive what its receiver promises."""

    code = "destination_invalid"


class UnknownDestination(UsageError):
    """No destination of that name is registered."""

    code = "unknown_destination"


class MessageInvalid(UsageError):
    """A message that cannot be sent as it is: its body, a header, its name, its times."""

    code = "message_invalid"


class UnknownMessage(UsageError):
    """No message has that id."""

    code = "unknown_message"


class UnsupportedDatabase(UsageError):
    """A database that duly does not know, or too old a version."""

    code = "unsupported_database"


class DatabaseNotFound(UsageError):
    """A SQLite file that does not exist; only `init` and `demo` make one."""

    code = "database_not_found"


class MissingExtra(UsageError):
    """An optional dependency is not installed; the message names the extra."""

    code = "missing_extra"


class ScriptInvalid(UsageError):
    """A SQL script that may not be run as it is; nothing of it was run."""

    code = "script_invalid"


class StatementFailed(UsageError):
    """The database refused a statement of a script; all of the script was rolled back."""

    code = "statement_failed"


class CommandFailed(UsageError):
    """The command of `duly exec` failed; the key stays free."""

    code = "command_failed"


class SwallowedError(UsageError):
    """The handler hid a database error that had aborted its transaction; nothing was kept."""

    code = "swallowed_error"


# A person at the controls must act.


class OperatorError(DulyError):
    """A person must decide or repair something; trying again changes nothing."""

    code = "operator"


class PayloadConflict(OperatorError):
    """The key was settled with another payload."""

    code = "conflict"


class AlreadySettled(OperatorError):
    """The key is settled, but not as applied: skipped, superseded, waived or torn."""

    code = "already_settled"


class MessageSettled(OperatorError):
    """What was asked of a message is not possible in the state that it is in."""

    code = "message_settled"


class Expired(OperatorError):
    """The nominal time is at or below the job's horizon: its record may have been pruned."""

    code = "expired"


class MessageParked(OperatorError):
    """A received message is held for a person: not handled, and not to be acknowledged as done."""

    code = "message_parked"


class Fenced(OperatorError):
    """The attempt lost its lease to another."""

    code = "fenced"


class TransactionEnded(OperatorError):
    """The handler ended duly's transaction; the occurrence is held as torn."""

    code = "torn"


class CommandHeld(OperatorError):
    """A command was started, and its end or its completion is not known; a person settles it."""

    code = "command_held"


class SchemaMissing(OperatorError):
    """The database has no tables of duly's."""

    code = "schema_missing"


class SchemaOutdated(OperatorError):
    """The tables are older than this code."""

    code = "schema_outdated"


class SchemaNewer(OperatorError):
    """The tables are newer than this code."""

    code = "schema_newer"


class DatabaseReadOnly(OperatorError):
    """The database, or the role, does not allow writing."""

    code = "read_only"


class AccessDenied(OperatorError):
    """The server refused the user, the password, or a right that duly needs."""

    code = "access_denied"


class UnsafeStorage(OperatorError):
    """Storage that does not keep what was committed: unlogged, MyISAM, a network file system."""

    code = "unsafe_storage"


class DefinitionStale(OperatorError):
    """This process's definition of a job is an earlier one than the ledger's."""

    code = "definition_stale"


class ZoneDataOutdated(OperatorError):
    """This process's time zone data is older than the ledger's, and disagrees for a job."""

    code = "zone_data_outdated"


class PruneRefused(OperatorError):
    """A prune that would, or might, free the key of a recent occurrence."""

    code = "prune_refused"


# Try again.


class TransientError(DulyError):
    """Nothing was done; the same call may succeed later."""

    code = "transient"


class Busy(TransientError):
    """Another transaction holds the key, or the database stayed contended, for all of `wait`."""

    code = "busy"


class HandlerTimeout(TransientError):
    """The handler took longer than its job's `timeout=`; its work was rolled back."""

    code = "timeout"


class ConnectionLost(TransientError):
    """The database cannot be reached, or went away before anything was committed."""

    code = "connection_lost"


class LookupFailed(TransientError):
    """A destination's `lookup=` raised, so its message stays uncertain."""

    code = "lookup_failed"


# We must act.


class InvariantBroken(DulyError):
    """A promise of duly's own does not hold; stop and report it."""

    code = "invariant_broken"

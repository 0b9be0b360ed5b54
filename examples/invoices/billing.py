"""The business: one invoice for each account and month, its payment request, and a mail.

The invoice, the request and the mail are one transaction of one occurrence and one partition:
an account's invoice is there with both messages, or not at all.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import duly
from duly.channels import Http, Smtp

AMOUNT = 10
DURING_CHAOS = {
    # Short, so that a doubt shows soon: the defaults suit receivers that are slow and seldom die.
    "timeout": timedelta(seconds=5),
    "lease": timedelta(seconds=10),
    "backoff": (timedelta(milliseconds=200), timedelta(seconds=2)),
}

app = duly.App(os.environ["BILLING_DATABASE"])

# The provider is ours, and receives with an inbox: what may have arrived is sent again.
app.destination(
    "payments",
    Http(os.environ["BILLING_PAYMENTS"]),
    contract=duly.Contract.inbox(),
    **DURING_CHAOS,
)
# No mail server looks at ids: what may have arrived is held, for a person to decide.
app.destination(
    "mail",
    Smtp(
        "127.0.0.1",
        port=int(os.environ["BILLING_MAIL_PORT"]),
        security="none",
        sender="Billing <billing@bank.example>",
        local_hostname="billing.bank.example",
    ),
    contract=duly.Contract.smtp(),
    **DURING_CHAOS,
)


@app.job(
    "monthly-invoice",
    schedule="0 6 1 * *",
    timezone="Europe/Berlin",
    period="month",
    period_offset=-1,
    partitions="SELECT id FROM account WHERE active ORDER BY id",
    # One month, so that there is one right number of invoices.
    starts=datetime(2026, 10, 1, tzinfo=UTC),
    ends=datetime(2026, 10, 2, tzinfo=UTC),
    max_per_tick=100,
    max_running=8,
    retry=duly.Retry(attempts=1_000, first=timedelta(milliseconds=100), most=timedelta(seconds=1)),
)
def monthly_invoice(run: duly.Run) -> None:
    """Writes the invoice of one account, asks for its payment, and says so."""
    account, month = run.partition, f"{run.local_time:%Y-%m}"
    run.execute(
        "INSERT INTO invoice (account_id, month, amount) VALUES (:account, :month, :amount)",
        {"account": account, "month": month, "amount": AMOUNT},
    )
    run.send("payments", {"account": account, "month": month, "amount": AMOUNT})
    run.send(
        "mail",
        {
            "to": f"{account}@customers.example",
            "subject": f"Your invoice of {month}",
            "text": f"{AMOUNT} units are due.\n",
        },
    )

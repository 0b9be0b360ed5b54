"""A CronJob of Kubernetes, and a second one where the first would leave out a due time.

Decides how rules become the fields that Kubernetes reads (robfig/cron, which has no L and no #)
and what each setting means for a job of duly's. Must never hold a password: it names a Secret.
"""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from typing import TYPE_CHECKING, Final

from duly._cli.units import cron, rules, times
from duly._cli.units.order import dns_name, schedule_lines
from duly.zones import load

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from duly._cli.units.order import Order
    from duly._cli.units.rules import Rule
    from duly._core.job import Job

__all__ = ["files", "zone_for"]

# A CronJob's name has 52 characters at most; the Job's has 11 more.
NAME_MAX: Final = 52
ETC_UTC: Final = "Etc/UTC"

HEAD: Final = """\
# Kubernetes 1.29 or newer. First the Secret, from a file that holds only the URL:
#   kubectl create secret generic {name} --from-file=DULY_DATABASE_URL=FILE
{schedule}
"""

GAP: Final = """\
---
# At a switch of the zone, next on {first:%Y-%m-%d}, the CronJob above leaves out a due time:
# Kubernetes skips what the clock skips. This one starts the same job then, in UTC, which has no
# switch; on all other days its starts end as a `duplicate`, which does nothing.
"""

CRON_JOB: Final = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {name}
{namespace}  annotations:
    duly/job: {job}
spec:
  schedule: "{fields}"
  timeZone: {zone}
  # A long run does not hold up the next period: two periods have two keys, and of two starts of one
  # the key lets one through. Forbid would be safe as well, but a run that outlasts two periods
  # would lose the start of one.
  concurrencyPolicy: Allow
  # startingDeadlineSeconds is not set: after an outage of the cluster, however long, one start is
  # made up, for the newest period. With 200, an outage of four minutes would lose a daily start.
  # (Older times stay missing in duly's ledger until they are run by name. The message about more
  # than 100 missed starts is a warning.)
  successfulJobsHistoryLimit: 3
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      # Exit code 75 (busy, connection lost) and a Pod that was lost are tried again, ever more
      # slowly, for about three quarters of an hour.
      backoffLimit: 12
{deadline}      podFailurePolicy:
        rules:
          # A handler that failed, a wrong call, what a person must decide: not again by itself.
          - action: FailJob
            onExitCodes:
              containerName: duly
              operator: In
              values: [1, 2, 3, 70]
          # A Pod that its node gave up does not count.
          - action: Ignore
            onPodConditions:
              - type: DisruptionTarget
                status: "True"
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: duly
              image: {image}
              command:
{command}
{directory}              env:
                # Its end is the time that Kubernetes meant; duly floors it onto the schedule. A Job
                # made by hand has no such name: give its command --at, and remove this.
                - name: DULY_KUBERNETES_JOB_NAME
                  valueFrom:
                    fieldRef:
                      fieldPath: metadata.labels['batch.kubernetes.io/job-name']
                - name: DULY_DATABASE_URL
                  valueFrom:
                    secretKeyRef:
                      name: {name_of_secret}
                      key: DULY_DATABASE_URL
"""

DEADLINE: Final = """\
      # A start that takes longer, with all its retries, is stopped, and rolled back.
      activeDeadlineSeconds: {deadline}
"""


def zone_for(job: Job, *, now: datetime) -> ZoneInfo:
    """The zone that the CronJob of a job can count in.

    Kubernetes looks for the next time in whole hours of elapsed time (Next in robfig/cron's
    spec.go). After a switch by half an hour it arrives at half past, and misses the next start.
    """
    zone = times.zone_of(job)
    return zone if times.moved_by_whole_hours(zone, now=now) else load("UTC")


def files(order: Order) -> dict[str, str]:
    """The manifest, by the name of its file."""
    starts = order.starts
    name = f"duly-{dns_name(order.job.name, limit=NAME_MAX - len('duly-') - len('-gap'))}"
    rule = rules.one_rule(starts.rules)
    schedule = "\n".join(f"# {line}" for line in schedule_lines(order, (rule,)))
    text = HEAD.format(name=name, schedule=schedule)
    text += _cron_job(order, name, name, rule, starts.zone.key)

    def started(local: datetime) -> bool:
        # A skipped time is not taken, a repeated one twice.
        return rule.matches(local)

    utc = load("UTC")
    unmet = starts.unmet(started)
    if unmet:
        more = rules.on_months(start.astimezone(utc) for start in unmet)
        text += GAP.format(first=unmet[0]) + _cron_job(
            order, f"{name}-gap", name, rules.one_rule(more), "UTC"
        )
    return {f"{name}.yaml": text}


def _cron_job(order: Order, name: str, name_of_secret: str, rule: Rule, zone: str) -> str:
    namespace = "" if order.namespace is None else f"  namespace: {dumps(order.namespace)}\n"
    directory = "" if order.directory is None else f"workingDir: {dumps(order.directory)}\n"
    deadline = "" if order.deadline is None else DEADLINE.format(deadline=order.deadline)
    return CRON_JOB.format(
        name=name,
        namespace=namespace,
        job=dumps(order.job.name),
        fields=_fields(rule),
        zone=dumps(ETC_UTC if zone == "UTC" else zone),
        deadline=deadline,
        image=dumps(order.image),
        command="\n".join(f"                - {dumps(_literal(word))}" for word in order.command),
        directory=" " * 14 + directory if directory else "",
        name_of_secret=name_of_secret,
    )


def _literal(word: str) -> str:
    """A word that Kubernetes leaves as it is: it would expand `$(NAME)`, a secret's too."""
    return word.replace("$(", "$$(")


def _fields(rule: Rule) -> str:
    """The five fields: as for cron, but for those of days.

    There a star with a step does not mean that both must match, and Sunday is 0 alone.
    """
    minute, hour, *_ = cron.fields(rule).split()
    return " ".join((minute, hour, *cron.fields(replace(rule, spelled=None)).split()[2:]))

"""What agents leave behind: threads, runs, checkpoints, and the ledger of tool calls. Who decides is not known here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Now

from agents.fields import CanonicalField
from agents.outcome import CallKey


def new_thread_id() -> str:
    return str(uuid.uuid4())


class Agent(models.Model):
    """A compiled graph the desk knows by name. Rows follow the registry; `problem` says why one cannot be used."""

    name = models.SlugField(primary_key=True, max_length=100)
    title = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    version = models.CharField(max_length=100, blank=True)
    shape = models.CharField(max_length=64, blank=True, db_default="")  # digest of nodes, stops and tools: the code's
    guarantee = models.CharField(max_length=20, default="once")  # "once", or "at least once": tools beyond the ledger
    guarantee_reason = models.TextField(blank=True)
    mode_reason = models.TextField(blank=True, db_default="")  # why its graph runs in sync; "" where it need not
    multitask = models.CharField(max_length=10, default="enqueue")  # what a message does to a busy thread
    tools_node = models.CharField(max_length=200, blank=True)  # of the graph itself; without one no call can be settled
    transformers = models.JSONField(default=list)  # of its streams, in order: [{"name", "source", "redacts"}]
    redacts = models.CharField(max_length=5, default="no")  # its live text is less than what is stored: no, yes, maybe
    problem = models.TextField(blank=True)
    is_active = models.BooleanField(default=True)
    updated_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.title


class Thread(models.Model):
    """One conversation with an agent. The row is also the lock: whoever holds the newest token may write."""

    class Status(models.TextChoices):
        IDLE = "idle"
        BUSY = "busy"
        INTERRUPTED = "interrupted"
        ERROR = "error"

    id = models.CharField(primary_key=True, max_length=64, default=new_thread_id)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="threads")
    title = models.CharField(max_length=200, blank=True)
    author = models.CharField(max_length=150, blank=True)
    status = models.CharField(max_length=20, choices=Status, default=Status.IDLE)
    waits = models.BooleanField(default=False)  # the head waits for people: queued messages are held
    stuck = models.BooleanField(default=False)  # a bad saved answer: only replaying the head helps
    head = models.CharField(max_length=64, blank=True)  # checkpoint id when the last run ended
    error = models.TextField(blank=True)
    ancestor = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="forks")
    ancestor_checkpoint = models.CharField(max_length=64, blank=True)
    note = models.TextField(blank=True)  # why it was forked, in its author's words
    fork_token = models.CharField(
        max_length=64, blank=True, db_default=""
    )  # of the form that made it; sent twice: once
    token = models.BigIntegerField(default=0)  # fencing token: +1 for each claim, never back
    holder = models.CharField(max_length=100, blank=True)  # worker that holds the lease, "" for nobody
    lease_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes: ClassVar = [models.Index(fields=["-updated_at", "id"], name="thread_recent")]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["ancestor", "author", "fork_token"],
                name="thread_one_fork_a_submit",
                condition=~models.Q(fork_token=""),
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.id

    def lineage(self) -> list[str]:
        """Return this thread's id and those of its ancestors, nearest first."""
        ids, thread = [self.id], self
        while thread.ancestor_id and thread.ancestor_id not in ids:
            ids.append(thread.ancestor_id)
            thread = thread.ancestor  # type: ignore[assignment]  # not None: ancestor_id is set
        return ids


class Run(models.Model):
    """One execution on a thread; pending runs are its queue. A repeated run is the same row."""

    class Kind(models.TextChoices):
        INPUT = "input"
        RESUME = "resume"
        REPLAY = "replay"

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        INTERRUPTED = "interrupted"
        SUCCESS = "success"
        ERROR = "error"
        CANCELLED = "cancelled"

    ACTIVE: ClassVar = (Status.PENDING, Status.RUNNING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="runs")
    kind = models.CharField(max_length=10, choices=Kind)
    status = models.CharField(max_length=20, choices=Status, default=Status.PENDING)
    position = models.BigIntegerField(default=0)  # order among the pending runs of its kind
    payload = CanonicalField(
        null=True
    )  # input: {"text"} or {"values"}; resume: Permit without its calls; replay: its start
    context = CanonicalField(null=True)  # passed to the graph on every advance; LangGraph does not keep it
    author = models.CharField(max_length=150, blank=True)
    submit_token = models.CharField(max_length=64, blank=True)
    follows = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="follow_ups")
    attempts = models.PositiveIntegerField(default=0)
    token = models.BigIntegerField(null=True, blank=True)  # of the claim that runs it
    stop = models.CharField(max_length=10, blank=True)  # "drain" or "cancel", asked for by a person
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["thread", "kind", "position"],
                name="run_queue",
                condition=models.Q(status__in=["pending", "running"]),
            ),
            models.Index(fields=["-finished_at"], name="run_finished", condition=models.Q(finished_at__isnull=False)),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["thread"], name="run_one_running_a_thread", condition=models.Q(status="running")
            ),
            models.UniqueConstraint(
                fields=["thread", "author", "submit_token"],
                name="run_one_a_submit",
                condition=~models.Q(submit_token=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class RunEvent(models.Model):
    """One event of a thread's stream, written under the token of the run that it tells of. `seq` has no gaps.

    Kept until the run's checkpoints hold the same and a retention has passed; a thread's newest one stays for good, so
    that its sequence goes on.
    """

    thread = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="events", db_constraint=False, db_index=False
    )
    seq = models.BigIntegerField()
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_constraint=False)
    kind = models.CharField(max_length=12)  # see agents.streams.events
    data = CanonicalField()  # plain JSON without NaN, below 24 KiB
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["thread", "seq"], name="event_seq")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class Worker(models.Model):
    """A process that runs graphs, as its poller and its heartbeat tell of it. Rows of processes that died are swept."""

    name = models.CharField(primary_key=True, max_length=100)
    host = models.CharField(max_length=100)
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Checkpoint(models.Model):
    """LangGraph's snapshot after a step. Written by the saver only.

    The primary key is the order of writing, and the only order: ids begin with the time of some worker's clock.
    """

    thread = models.ForeignKey(
        Thread, on_delete=models.CASCADE, related_name="checkpoints", db_constraint=False, db_index=False
    )
    ns = models.TextField(blank=True)  # as deep as graphs are nested
    checkpoint_id = models.CharField(max_length=64)
    parent_id = models.CharField(max_length=64, blank=True)
    run_id = models.CharField(max_length=64, blank=True)
    type = models.CharField(max_length=20)
    blob = models.BinaryField()  # small values, and the layout of the others
    spans = models.JSONField(default=list)  # [chain, first, end] of the pieces that hold the others
    metadata = models.JSONField(default=dict)
    next_nodes = models.TextField(blank=True, db_default="")  # see agents.marks
    messages = models.IntegerField(null=True)  # how many; None where they are rebuilt from writes
    outer_id = models.CharField(max_length=64, blank=True, db_default="")  # checkpoint of the graph around this one
    left_id = models.CharField(max_length=64, blank=True, db_default="")  # the head it turned away from: a new branch
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "ns", "checkpoint_id"], name="checkpoint_key"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["run_id"], name="checkpoint_run", condition=~models.Q(run_id="")),
            models.Index(fields=["thread", "outer_id"], name="checkpoint_outer", condition=~models.Q(outer_id="")),
            models.Index(fields=["thread", "ns", "id"], name="checkpoint_order"),
            models.Index(fields=["thread", "ns", "id"], name="checkpoint_branches", condition=~models.Q(left_id="")),
        ]

    def __str__(self) -> str:
        return self.checkpoint_id


class CheckpointPiece(models.Model):
    """One message, or another part of a big value, shared by the checkpoints that name it. Never changed."""

    pk = models.CompositePrimaryKey("thread_id", "chain", "number")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False)
    chain = models.BigIntegerField()
    number = models.IntegerField()
    digest = models.BinaryField(max_length=16)
    blob = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.chain}:{self.number}"


class CheckpointWrite(models.Model):
    """One pending write of a task at a checkpoint. Written by the saver only."""

    pk = models.CompositePrimaryKey("thread_id", "ns", "checkpoint_id", "task_id", "idx")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False)
    ns = models.TextField(blank=True)  # as deep as graphs are nested
    checkpoint_id = models.CharField(max_length=64)
    task_id = models.CharField(max_length=64)
    idx = models.IntegerField()
    task_path = models.TextField(blank=True)
    run_id = models.CharField(max_length=64, blank=True)
    channel = models.TextField()
    type = models.CharField(max_length=20)
    blob = models.BinaryField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["run_id"], name="write_run", condition=~models.Q(run_id=""))]

    def __str__(self) -> str:
        return f"{self.task_id} {self.channel}"


class StoreItem(models.Model):
    """What an agent remembers across threads, under LangGraph's (namespace, key). Written by the store only."""

    namespace = models.CharField(max_length=500)  # its labels, with dots between them
    key = models.CharField(max_length=500)
    value = CanonicalField()
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["namespace", "key"], name="store_item_key")]

    def __str__(self) -> str:
        return f"{self.namespace} {self.key}"


class ToolCall(models.Model):
    """A call that people were asked about in this thread. What was never asked has no row."""

    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="tool_calls")
    message_id = models.CharField(max_length=200)
    tool_call_id = models.CharField(max_length=200)
    namespace = models.TextField(blank=True)
    interrupt_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    args = CanonicalField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "message_id", "tool_call_id"], name="tool_call_key"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.key}"

    @property
    def key(self) -> CallKey:
        return CallKey(self.message_id, self.tool_call_id)


class ToolPermit(models.Model):
    """What a decision allows, carried by its resume run. Bound to the one execution that uses it."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="permits")
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="permits")
    interrupt_id = models.CharField(max_length=200)
    position = models.PositiveIntegerField(default=0)
    message_id = models.CharField(max_length=200, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=10)
    name = models.CharField(max_length=200, blank=True)
    args = CanonicalField(null=True)
    digest = models.CharField(max_length=64, blank=True)
    execution = models.UUIDField(null=True, blank=True, db_index=True)
    void = models.BooleanField(default=False)  # a replay left it behind before anything used it
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes: ClassVar = [models.Index(fields=["thread", "message_id", "tool_call_id"], name="permit_call")]

    def __str__(self) -> str:
        return f"{self.verdict} {self.message_id}:{self.tool_call_id}"


class ToolExecution(models.Model):
    """One execution of one call, as the ledger saw it. The id is a UUID5 of the key: the tool's idempotency key."""

    class Status(models.TextChoices):
        ASKED = "asked"  # the ledger asked people before it ran anything
        STARTED = "started"
        FINISHED = "finished"
        FAILED = "failed"
        PAUSED = "paused"  # the tool interrupted itself

    id = models.UUIDField(primary_key=True)
    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="executions")
    namespace = models.TextField(blank=True)
    checkpoint_id = models.CharField(max_length=64, blank=True)  # whose next step it belongs to, in that namespace
    task_id = models.CharField(max_length=64)
    message_id = models.CharField(max_length=200)
    tool_call_id = models.CharField(max_length=200)
    run_id = models.CharField(max_length=64, blank=True)
    token = models.BigIntegerField(default=0)
    name = models.CharField(max_length=200)
    args = CanonicalField()
    digest = models.CharField(max_length=64)
    idempotent = models.BooleanField(default=False)  # the tool says that a second call changes nothing
    status = models.CharField(max_length=10, choices=Status)
    questions = models.JSONField(default=list)  # what the ledger itself asked, in order: "permit", "unknown"
    was_paused = models.BooleanField(default=False)
    interrupts = models.PositiveIntegerField(default=0)  # answers the tool took before it finished
    calls = models.PositiveIntegerField(default=0)  # how often the tool's body was entered
    result_type = models.CharField(max_length=20, blank=True)  # LangGraph's serde type of `result`
    result = models.BinaryField(null=True)
    summary = models.TextField(blank=True)  # the result as text, for people
    is_error = models.BooleanField(default=False)  # the tool reported an error, or raised one
    refused = models.BooleanField(default=False, db_default=False)  # its arguments did not fit: it was not entered
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["thread", "message_id", "tool_call_id"], name="execution_call")]

    def __str__(self) -> str:
        return f"{self.name} {self.status}"


class LedgerIncident(models.Model):
    """The ledger refused a call.

    Kept here so that `agents` needs no reviewer; the audit log takes it up from the outcome.
    """

    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="incidents")
    run_id = models.CharField(max_length=64, blank=True)
    message_id = models.CharField(max_length=200)
    tool_call_id = models.CharField(max_length=200)
    kind = models.CharField(max_length=30)  # "digest differs", "rejected call", "stale token"
    detail = CanonicalField(null=True)
    reported = models.BooleanField(default=False)  # taken up by the audit log
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.kind


def run_of(config: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return (run id, fencing token) that the runner put into a LangGraph config; ("", None) for a run without one."""
    mark = config.get("configurable", {}).get("__countersign") or {}
    return str(mark.get("run", "")), mark.get("token")

"""What people see and decide: interrupts, actions, decisions, drafts, grants, the audit log.

Every query for a page starts from ``visible_to(user)``; what a person may decide, from ``decidable_by(user)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models.functions import Now

from agents.compiled import Compiled
from agents.fields import CanonicalField
from agents.models import Agent, Run, Thread
from agents.statements import select


class Role(models.TextChoices):
    REVIEWER = "reviewer"
    OPERATOR = "operator"
    AUDITOR = "auditor"


class Grant(models.Model):
    """A group may act in a role for one agent, or for all (agent is NULL). An administrator (superuser) needs none."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="grants")
    agent = models.ForeignKey(Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=10, choices=Role)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["group", "agent", "role"], name="grant_once", nulls_distinct=False),
        ]

    def __str__(self) -> str:
        return f"{self.group}: {self.role} of {self.agent or 'all agents'}"


_GRANTED = """
select g.role, a.name from auth_user_groups m join reviews_grant g on g.group_id = m.group_id
left join agents_agent a on g.agent_id = a.name or g.agent_id is null
where m.user_id = %s
"""
_kept: ContextVar[dict[int, dict[str, list[str]]] | None] = ContextVar("kept", default=None)


@contextmanager
def rights_kept() -> Iterator[None]:
    """Ask for each person's rights once, and keep them until the end: for one answer to a browser."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def forget_rights() -> None:
    """Have the rights looked up anew: in a transaction that rests on them."""
    if (kept := _kept.get()) is not None:
        kept.clear()


def names_for(user: Any, *roles: str) -> list[str]:
    """Return the names of the agents for which ``user`` has one of ``roles`` (any role when none is named).

    By hand, and not as a part of each query: every page asks several times, and the ORM takes longer to write this
    than the database to answer.
    """
    if not user.is_active or not user.is_authenticated:
        return []
    granted = granted_to(user)
    if user.is_superuser:
        return granted[""]
    return list(dict.fromkeys(name for role in roles or Role.values for name in granted.get(role, ())))


def granted_to(user: Any) -> dict[str, list[str]]:
    """Return each role of ``user`` with the names of the agents that it reaches.

    An administrator needs no grant, and has under "" the names of all agents.
    """
    kept = _kept.get()
    if kept is not None and user.pk in kept:
        return kept[user.pk]
    found: dict[str, list[str]] = {}
    if user.is_superuser:
        found[""] = [name for (name,) in select("select name from agents_agent")]
    else:
        for role, name in select(_GRANTED, [user.pk]):
            found.setdefault(role, []).extend([name] if name is not None else [])
    if kept is not None:
        kept[user.pk] = found
    return found


def agents_for(user: Any, *roles: str) -> models.QuerySet[Agent]:
    """Return the agents of ``names_for``."""
    return Agent.objects.filter(pk__in=names_for(user, *roles))


def threads_for(user: Any, *roles: str) -> models.QuerySet[Thread]:
    return Thread.objects.filter(agent__in=names_for(user, *roles))


_THREAD = Compiled(
    lambda pk, agents: Thread.objects.filter(pk=pk, agent__any_of=agents).select_related("agent", "ancestor")
)


def thread_for(user: Any, pk: str) -> Thread | None:
    """Return one of ``threads_for``, with its agent and the thread that it was forked from."""
    return _THREAD.first(pk, names_for(user))


class InterruptQuerySet(models.QuerySet["Interrupt"]):
    def visible_to(self, user: Any) -> Self:
        return self.filter(agent__in=names_for(user))

    def decidable_by(self, user: Any) -> Self:
        return self.filter(agent__in=names_for(user, Role.REVIEWER))

    def open(self) -> Self:
        return self.filter(status=Interrupt.Status.OPEN)


class Interrupt(models.Model):
    """A pause that waits for people. Filed by ``intake.record_outcome`` only; decided by ``record_decisions`` only."""

    class Status(models.TextChoices):
        OPEN = "open"
        DECIDED = "decided"
        APPLIED = "applied"
        WITHDRAWN = "withdrawn"

    thread = models.ForeignKey(Thread, on_delete=models.PROTECT, related_name="interrupts")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="interrupts")
    agent_version = models.CharField(max_length=100, blank=True, db_default="")  # of the code that asked
    agent_shape = models.CharField(max_length=64, blank=True, db_default="")
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="interrupts")  # that stopped here
    namespace = models.TextField(blank=True)
    interrupt_id = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1)
    supersedes = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    task_id = models.CharField(max_length=64, blank=True)
    checkpoint_id = models.CharField(max_length=64, blank=True)
    node = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    kind = models.CharField(max_length=20, default="interrupt")  # Ask.kind
    dialect = models.CharField(max_length=20)
    value = CanonicalField(null=True)
    value_digest = models.CharField(max_length=64)  # Ask.digest: compared with the live interrupt before the resume
    types = models.JSONField(default=dict)
    response_schema = CanonicalField(null=True)
    siblings = CanonicalField(null=True)  # list of {"name", "args", "state", "result"}
    restarts = models.BooleanField(default=False)
    digest = models.CharField(max_length=64)  # of dialect and actions: what the form carries
    title = models.CharField(max_length=200)
    summary = models.CharField(max_length=400, blank=True)
    tools = models.CharField(max_length=400, blank=True)  # tool names, for the filter: " a b "
    # the value breaks its dialect's rules: shown, never approved
    held_code = models.CharField(max_length=30, blank=True)
    held_reason = models.TextField(blank=True)
    note = models.TextField(blank=True)  # e.g. "the answer was not taken", for the next reader
    created_at = models.DateTimeField(db_default=Now())
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    submit_token = models.CharField(max_length=64, blank=True)
    resume = models.OneToOneField(Run, null=True, blank=True, on_delete=models.PROTECT, related_name="answers")
    applied_at = models.DateTimeField(null=True, blank=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    withdrawn_reason = models.TextField(blank=True)

    objects = InterruptQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["thread", "namespace", "interrupt_id", "version"], name="interrupt_version"
            ),
            # One live question per pause: a second open or decided row of the same id would ask it again.
            models.UniqueConstraint(
                fields=["thread", "namespace", "interrupt_id"],
                name="interrupt_one_live",
                condition=models.Q(status__in=["open", "decided"]),
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["created_at", "id"], name="interrupt_open", condition=models.Q(status="open")),
            models.Index(fields=["agent", "created_at", "id"], name="interrupt_agent"),
            models.Index(fields=["-decided_at", "-id"], name="interrupt_decided"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def agent_changed(self) -> str:
        """Say how the agent's code differs from the code that asked; "" where it is the same, or was never noted."""
        if not self.agent_shape:
            return ""
        if self.agent_version != self.agent.version:
            was, now = self.agent_version or "no version", self.agent.version or "no version"
            return f"It was {was} then and is {now} now."
        same = self.agent_shape == self.agent.shape
        return "" if same else "Its version is the same; its nodes, tools or their arguments are not."


class Action(models.Model):
    """One proposed tool call inside an interrupt (or the one question it is)."""

    interrupt = models.ForeignKey(Interrupt, on_delete=models.PROTECT, related_name="actions")
    position = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    args = CanonicalField(null=True)
    args_order = models.JSONField(default=list)  # names in the agent's order; canonical bytes are sorted
    description = CanonicalField(null=True)  # text in the agent's words; bytes, because it may hold NUL
    allowed = models.JSONField(default=list)
    flags = models.JSONField(default=list)
    labels = models.JSONField(default=dict)  # verdict -> word of the dialect, e.g. reject: "Ignore"
    choices = models.JSONField(default=list)
    schema = CanonicalField(null=True)  # JSON Schema of the arguments
    message_id = models.CharField(max_length=200, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    digest = models.CharField(max_length=64)
    effect = models.CharField(max_length=12, blank=True)  # Effect.state, once verified
    executed = CanonicalField(null=True)  # {"name", "args"} that the tool really received
    differs = models.BooleanField(default=False)  # executed is not what was decided
    result = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["interrupt", "position"], name="action_position")]

    def __str__(self) -> str:
        return self.name


class Decision(models.Model):
    """The verdict on one action. At most one, ever: the action is the key. Written by ``record_decisions`` only."""

    action = models.OneToOneField(Action, primary_key=True, on_delete=models.PROTECT, related_name="decision")
    verdict = models.CharField(max_length=10)
    args = CanonicalField(null=True)  # edit: the whole arguments that may run
    message = CanonicalField(null=True)  # reject: feedback; respond: the text
    value = CanonicalField(null=True)  # raw and schema: the parsed answer, as {"value": ...}
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="decisions")
    role = models.CharField(max_length=20)
    digest = models.CharField(max_length=64)  # of name and arguments that may run; of the answer otherwise
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.verdict


class Draft(models.Model):
    """What a person typed and has not sent. `data` holds the posted form fields of that action, as text."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="drafts")
    action = models.ForeignKey(Action, on_delete=models.CASCADE, related_name="drafts")
    verdict = models.CharField(max_length=10, blank=True)  # chosen for this action; "" while only typed
    data = CanonicalField(null=True)  # form field -> list of texts
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "action"], name="draft_once")]

    def __str__(self) -> str:
        return f"{self.user}: {self.verdict or 'typed'}"


class LookQuerySet(models.QuerySet["Look"]):
    def visible_to(self, user: Any) -> Self:
        """Marks on what ``user`` may see, that still count. One's own are among them."""
        return self.filter(interrupt__agent__in=names_for(user), until__gt=Now())


class Look(models.Model):
    """A mark that somebody has a question open, who may decide it. It ends by itself, and reserves nothing."""

    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="looks")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="looks")
    until = models.DateTimeField()

    objects = LookQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["interrupt", "user"], name="look_once")]

    def __str__(self) -> str:
        return f"{self.user} looks at {self.interrupt_id}"


class AuditEntry(models.Model):
    """One link of the hash chain. `body` is RFC 8785 JSON; the other columns only help to find it."""

    seq = models.BigIntegerField(primary_key=True)
    body = models.TextField()
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=40)
    at = models.DateTimeField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    actor = models.CharField(max_length=150)
    agent = models.ForeignKey(Agent, null=True, on_delete=models.PROTECT, related_name="+")
    thread = models.ForeignKey(Thread, null=True, on_delete=models.PROTECT, related_name="+")
    interrupt = models.ForeignKey(Interrupt, null=True, on_delete=models.PROTECT, related_name="entries")
    verdict = models.CharField(max_length=10, blank=True)

    class Meta:
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [
            models.Index(fields=["agent", "-seq"], name="audit_agent"),
            models.Index(fields=["user", "-seq"], name="audit_user"),
            models.Index(fields=["kind", "-seq"], name="audit_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class AuditSecret(models.Model):
    """What an entry only commits to: salt and value. Erasing a row keeps the chain whole."""

    entry = models.ForeignKey(AuditEntry, on_delete=models.PROTECT, related_name="secrets")
    name = models.CharField(max_length=60)  # e.g. "arguments.0", "message.0"
    salt = models.BinaryField(null=True)
    value = CanonicalField(null=True)
    erased_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["entry", "name"], name="audit_secret_name")]

    def __str__(self) -> str:
        return f"{self.entry_id} {self.name}"


class Label(models.Model):
    """A name that a person gave to one checkpoint, so that others find it again."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="labels")
    checkpoint_id = models.CharField(max_length=64)
    name = models.CharField(max_length=80)
    note = models.TextField(blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["thread", "checkpoint_id", "name"], name="label_once"),
        ]

    def __str__(self) -> str:
        return self.name


class SignInLink(models.Model):
    """A one-time sign-in link; only the hash of its token is kept."""

    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return "used" if self.used_at else "unused"


class Preference(models.Model):
    """How one person wants the desk: theme, and whether bare letters move."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE)
    theme = models.CharField(max_length=5, blank=True)  # "", "light" or "dark"
    letters = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"{self.user}: {self.theme or 'as the system'}"

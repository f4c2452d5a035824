"""Time travel to act: fork a checkpoint, rewind a thread to one, or go back before what was rejected.

Operators do the first two; the third is for reviewers of the agent too, see ``reviews.forks``. Each page says before
what will happen again, and its forms carry what was said: if that has changed, nothing is done and the page comes back.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from agents import history, registry
from agents.history import SafetySheet, Unfit, UnknownCheckpoint
from agents.models import Run, Thread
from agents.outcome import Snapshot, from_canonical
from reviews import forks, schema_forms
from reviews.arg_fields import normal_lines
from reviews.forks import Changed, Refused, Wish
from reviews.models import Interrupt
from reviews.views.checkpoints import find_checkpoint, find_thread
from reviews.views.door import signed_in

How = Literal["fork", "rewind"]
WAYS = ("plain", "message", "values")
ANY_MESSAGE = "…"  # what will happen does not depend on the words
EDITED = "v"  # prefix of the fields of edited values


@dataclass
class Way:
    """One way to start, with what will happen then. ``problem``: why it cannot be chosen."""

    name: str
    sheet: SafetySheet | None = None
    problem: str = ""

    @property
    def stamp(self) -> str:
        return forks.stamp(self.sheet) if self.sheet else ""


@dataclass
class Form:
    """What a person has typed on the page of a fork or rewind."""

    message: str = ""
    name: str = ""
    note: str = ""
    as_node: str = ""
    edits: bool = False
    problems: dict[str, str] = field(default_factory=dict)
    values: Any = None  # form of the values
    looked: bool = False  # at what the edited values will do


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def fork(request: HttpRequest, pk: str, checkpoint: str) -> HttpResponse:
    """Fork a checkpoint into a new thread: as it is, with a word to the agent, or with other values."""
    return _start(request, pk, checkpoint, how="fork")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def rewind(request: HttpRequest, pk: str, checkpoint: str) -> HttpResponse:
    """Let the thread itself go on from a checkpoint, and hide what came after."""
    return _start(request, pk, checkpoint, how="rewind")


@require_POST
@signed_in
def correct(request: HttpRequest, pk: int) -> HttpResponse:
    """Go back before a rejected action and tell the agent what instead; leads to the new thread, at work already."""
    rows = Interrupt.objects.visible_to(request.user).select_related("thread__agent", "agent")
    row = get_object_or_404(rows, pk=pk)
    if not forks.may_correct(request.user, row):
        raise PermissionDenied("You may see this question, but not act on its thread.")
    try:
        made = forks.correct(
            request.user,
            row,
            message=normal_lines(request.POST.get("message", "")),
            name=request.POST.get("name", ""),
            submit_token=request.POST.get("submit_token", ""),
        )
    except (Refused, Unfit) as refusal:
        messages.warning(request, f"Nothing was started\n{_words(refusal)}", extra_tags="wait")
        request.session["typed_message"] = {"text": request.POST.get("message", ""), "agent": row.agent_id}
        return redirect("reviews:interrupt", pk)
    except UnknownCheckpoint:
        raise Http404 from None
    messages.success(request, f"Forked from before it\n{row.agent.title} has read your words and is at work here.")
    return redirect("reviews:thread", made)


# ------------------------------------------------------------------------------------------------------ fork and rewind


def _start(request: HttpRequest, pk: str, checkpoint: str, *, how: How) -> HttpResponse:
    thread = find_thread(request, pk)
    snapshot = find_checkpoint(thread, checkpoint)
    if not forks.may_fork(request.user, thread):
        raise PermissionDenied(f"You may see this thread. An operator of {thread.agent.title} can {how} it.")
    if request.method != "POST":
        form = _blank(request, snapshot)
        return _page(request, thread, snapshot, form, how=how)
    return _act(request, thread, snapshot, how=how)


def _act(request: HttpRequest, thread: Thread, snapshot: Snapshot, *, how: How) -> HttpResponse:
    form, way = _typed(request, snapshot), request.POST.get("go", "")
    if way == "look":
        return _page(request, thread, snapshot, form, how=how, status=422 if form.problems else 200)
    if way not in WAYS:
        raise Http404
    if way == "message" and not form.message.strip():
        form.problems["message"] = f"Tell {thread.agent.title} something, or go on as it is."
    if form.problems:
        return _page(request, thread, snapshot, form, how=how, status=422)
    try:
        return _done(request, thread, snapshot, _wish(form, way), how=how, seen=request.POST.get(f"seen-{way}", ""))
    except Unfit as unfit:
        form.problems |= unfit.problems
        return _page(request, thread, snapshot, form, how=how, status=422)
    except Refused as refusal:
        return _page(request, thread, snapshot, form, how=how, status=422, refused=str(refusal))
    except Changed:
        return _page(request, thread, snapshot, form, how=how, status=409, changed=True)
    except UnknownCheckpoint:
        raise Http404 from None


def _done(request: HttpRequest, thread: Thread, snapshot: Snapshot, wish: Wish, *, how: How, seen: str) -> HttpResponse:
    token = request.POST.get("submit_token", "")
    if how == "fork":
        made = forks.fork(request.user, thread, snapshot.checkpoint_id, wish, seen=seen, submit_token=token)
        messages.success(request, "Forked\nThis is the new thread. The one it comes from stays as it is.")
        return redirect("reviews:thread", made)
    hides = [int(pk) for pk in request.POST.getlist("hides") if pk.isascii() and pk.isdigit() and len(pk) < 19]
    if hides and request.POST.get("sure") != "1":
        raise Refused("Tick the box first: open questions will be withdrawn.")
    forks.rewind(request.user, thread, snapshot.checkpoint_id, wish, seen=seen, hides=hides, submit_token=token)
    messages.success(request, f"Rewound to step {snapshot.step}\n{thread.agent.title} goes on from there.")
    return redirect("reviews:thread", thread.pk)


def _wish(form: Form, way: str) -> Wish:
    return Wish(
        message=form.message if way == "message" else "",
        values=form.values.touched if way == "values" else {},
        as_node=form.as_node if way == "values" else "",
        name=" ".join(form.name.split()),
        note=form.note.strip(),
    )


# ------------------------------------------------------------------------------------------------------------- the form


def _blank(request: HttpRequest, snapshot: Snapshot) -> Form:
    edits = request.GET.get("edit") == "1"
    return Form(edits=edits, values=_values_form(snapshot) if edits else None)


def _typed(request: HttpRequest, snapshot: Snapshot) -> Form:
    posted = request.POST
    form = Form(
        message=normal_lines(posted.get("message", "")),
        name=posted.get("name", ""),
        note=normal_lines(posted.get("note", "")),
        as_node=posted.get("as_node", "")[:200],
        edits=posted.get("edit") == "1",
    )
    if form.edits:
        form.values = _values_form(snapshot, posted)
        if posted.get("go") in ("look", "values"):
            form.problems |= _wrong(form)
            form.looked = not form.problems
    return form


def _wrong(form: Form) -> dict[str, str]:
    if form.values.is_valid():
        return {} if form.values.touched else {"form": "Nothing is changed yet."}
    return {name: " ".join(problems) for name, problems in form.values.wrong.items()} or {"form": "This does not fit."}


def _values_form(snapshot: Snapshot, posted: Any = None) -> Any:
    """Return the form of the values besides the messages, by the state's schema where the agent's code has one."""
    values = from_canonical(snapshot.values)
    args = values if isinstance(values, dict) else {}
    return schema_forms.build(args, schema=_schema(snapshot.thread_id), prefix=EDITED, data=posted)


def _schema(thread_id: str) -> dict[str, Any] | None:
    try:
        schema = history.state_schema(thread_id)
    except (registry.UnknownAgent, registry.UnusableAgent):
        return None
    properties = {name: one for name, one in schema.get("properties", {}).items() if name != "messages"}
    return {**schema, "properties": properties} if properties else None


# ------------------------------------------------------------------------------------------------------------- the page


def _page(
    request: HttpRequest,
    thread: Thread,
    snapshot: Snapshot,
    form: Form,
    *,
    how: How,
    status: int = 200,
    refused: str = "",
    changed: bool = False,
) -> HttpResponse:
    edited = Way("values")
    if form.looked:
        edited = _way(thread, snapshot, _wish(form, "values"), how=how, name="values", form=form)
        status = 422 if form.problems else status
    rows = form.values.rows if form.values is not None else []
    context = {
        "section": "threads",
        "thread": thread,
        "snapshot": snapshot,
        "how": how,
        "form": form,
        "rows": [(row, form.problems.get(row.name, "")) for row in rows],
        "other_problems": _other_problems(form, {"message", *(row.name for row in rows)}),
        "plain": _way(thread, snapshot, Wish(), how=how, name="plain"),
        "told": _way(thread, snapshot, Wish(message=ANY_MESSAGE), how=how, name="message"),
        "edited": edited,
        "hides": forks.open_questions(thread) if how == "rewind" else [],
        "running": thread.runs.filter(status=Run.Status.RUNNING).exists(),
        "refused": refused,
        "changed": changed,
        "token": request.POST.get("submit_token", "") or secrets.token_urlsafe(18),
        "action": reverse(f"reviews:{how}", args=[thread.pk, snapshot.checkpoint_id]),
    }
    return render(request, "start_again.html", context, status=status)


def _other_problems(form: Form, told: Collection[str]) -> list[str]:
    """Return what is wrong with the form, but for what is told at a field."""
    left = {name: why for name, why in form.problems.items() if name not in told}
    return [why if name == "form" else f"{name}: {why}" for name, why in left.items()]


def _way(thread: Thread, snapshot: Snapshot, wish: Wish, *, how: How, name: str, form: Form | None = None) -> Way:
    try:
        sheet = forks.sheet_of(thread, snapshot.checkpoint_id, wish, kind=how)
    except Unfit as unfit:
        if form is not None:
            form.problems |= unfit.problems
            form.looked = False
        return Way(name, problem=_words(unfit))
    except Refused as refusal:
        return Way(name, problem=str(refusal))
    if sheet.missing:
        nodes = ", ".join(sheet.missing)
        return Way(name, sheet, f"The agent’s code no longer has {nodes}, which is due here. Nothing would run.")
    return Way(name, sheet)


def _words(error: Exception) -> str:
    return " ".join(error.problems.values()) if isinstance(error, Unfit) else str(error)

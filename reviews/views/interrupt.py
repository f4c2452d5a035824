"""One question: what an agent wants to do, everything that is needed to judge it, and the decision on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from agents import history
from agents.outcome import canonical_bytes
from reviews import decisions, drafts, inbox, looks, questions, talk
from reviews.inbox import Filters
from reviews.models import Interrupt
from reviews.questions import Question
from reviews.sheets import NotRecorded, Sheet
from reviews.talk import VERDICT_WORDS
from reviews.views.door import is_fragment, see_other, signed_in

ACTS = ("undo", "strip", "escape")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one question with those of the same pause; or take the decision that its form was sent for."""
    found = _find(request, pk)
    if request.method == "POST":
        return _decide(request, found)
    pause = questions.pause(request.user, found)
    if _is_opened(request):  # the one thing that a GET leaves behind: a mark on which nothing rests
        looks.arrive(request.user, pause)
    question = questions.read(
        request.user, found, number=_number(request.GET.get("action")), raw=_raw(request.GET.get("raw"))
    )
    return _page(request, question, pause=pause)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep what was typed; mark one action of several; or work a small button of a row. Nothing is decided here."""
    found = _find(request, pk)
    if request.method != "POST":
        return redirect("reviews:interrupt", pk)
    if "clear" in request.POST:
        drafts.clear(request.user, found)
        return redirect("reviews:interrupt", pk)
    question = _posted(request, found)
    if (act := _act(request.POST)) is not None:
        return _work(request, question, act)
    if verb := request.POST.get("decision", ""):
        return _mark(request, question, verb)
    sheet = question.current
    assert sheet is not None  # noqa: S101  # an open question that is not held has an action
    kept = drafts.keep(request.user, sheet.action, _typed(sheet))
    if not is_fragment(request):
        return redirect(_address(request, question, sheet))
    return render(request, "_approve.html", {"question": question, "sheet": sheet, "kept": kept, "swapped": True})


def _find(request: HttpRequest, pk: int) -> Interrupt:
    found = questions.find(request.user, pk)
    if found is None:
        raise Http404
    return found


def _posted(request: HttpRequest, found: Interrupt) -> Question:
    """Read a sent form. Raises PermissionDenied for who may see the question but not decide it.

    Raises BadRequest for a form that says two things, and Http404 for one about an action that is not there.
    """
    number = _number(request.POST.get("action"))
    question = questions.read(request.user, found, number=number, posted=request.POST)
    if not question.may_decide:
        raise PermissionDenied("You may see this question, but not decide it.")
    if "decision" in request.POST and any(len(texts) > 1 for _, texts in request.POST.lists()):
        raise BadRequest("A field was sent twice, so it is not clear which one counts.")
    if "action" in request.POST and not 1 <= number <= len(question.sheets):
        raise Http404
    return question


@require_safe
@signed_in
def changed(request: HttpRequest, pk: int) -> HttpResponse:
    """Say what happened to a question since its page was opened; nothing, when it is as it was."""
    found = _find(request, pk)
    is_as_it_was = found.status == request.GET.get("status")
    return render(request, "_changed.html", {"interrupt": found, "is_as_it_was": is_as_it_was})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def looking(request: HttpRequest, pk: int) -> HttpResponse:
    """Say who else has the question's page open; a POST renews the mark of who asks, whose page is in sight."""
    found = _find(request, pk)
    rows = questions.pause(request.user, found)
    if request.method == "POST":
        looks.stay(request.user, rows)
        return HttpResponse(status=204)
    return render(request, "_looking.html", _looked_at(request, found, rows))


def _looked_at(request: HttpRequest, found: Interrupt, rows: list[Interrupt]) -> dict[str, Any]:
    marks = [look for marks in looks.of_others(request.user, rows).values() for look in marks]
    return {"interrupt": found, "pause": rows, "seen_by": marks}


def _is_opened(request: HttpRequest) -> bool:
    """Say whether a person opens this page: not one of its regions, not a browser that fetches ahead of a click."""
    ahead = request.headers.get("Sec-Purpose", request.headers.get("Purpose", ""))
    return request.method == "GET" and not is_fragment(request) and "prefetch" not in ahead


@require_safe
@signed_in
def download(request: HttpRequest, pk: int) -> HttpResponse:
    """Give one argument as it is, or all that the digest covers; a payload that is held, whole."""
    found = _find(request, pk)
    if found.held_code:
        return _file(canonical_bytes(found.value), f"question-{pk}.json")
    action = get_object_or_404(found.actions, position=_number(request.GET.get("action")) - 1)
    name = request.GET.get("name")
    if name is None:
        return _file(canonical_bytes({"name": action.name, "args": action.args}), f"question-{pk}.json")
    if not isinstance(action.args, dict) or name not in action.args:
        raise Http404
    value = action.args[name]
    if isinstance(value, str):
        return _file(value.encode("utf-8", "surrogatepass"), f"question-{pk}.txt")
    return _file(canonical_bytes(value), f"question-{pk}.json")


def _file(content: bytes, name: str) -> HttpResponse:
    """Hand bytes over as a file: a browser never shows them as a page of ours."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(content, content_type="application/octet-stream", headers=headers)


# ------------------------------------------------------------------------------------------------------------- deciding


def _decide(request: HttpRequest, found: Interrupt) -> HttpResponse:
    question = _posted(request, found)
    token = request.POST.get("submit_token", "")
    if (act := _act(request.POST)) is not None and question.can_be_decided:
        return _work(request, question, act)
    if _is_answered_already(request, found, token):
        return _go_on(request, question)
    if question.several and question.is_open and request.POST.get("marks") != question.stamp:
        question.problems.append("What you marked was changed in another tab. Look at it once more.")
        return _refused(request, question, token)
    try:
        decisions.record_decisions(
            request.user,
            found.pk,
            version=_number(request.POST.get("version")),
            digest=request.POST.get("digest", ""),
            submit_token=token,
            verdicts=question.verdicts(request.POST.get("decision", "")),
            signed_in=request.session.get("signed_in", ""),
        )
    except NotRecorded:
        return _refused(request, question, token)
    except decisions.Invalid as wrong:
        question.blame(list(wrong.problems))
        return _refused(request, question, token)
    except decisions.AlreadyDecided:
        return _conflict(request, question)
    except decisions.Stale as stale:
        return _conflict(request, question, stale=stale)
    except decisions.NotAllowed as refusal:
        raise PermissionDenied(str(refusal)) from None
    return _go_on(request, question)


def _is_answered_already(request: HttpRequest, found: Interrupt, token: str) -> bool:
    """Say whether this very form was recorded before: a double click, a proxy's retry, the back button."""
    return bool(token) and found.decided_by_id == request.user.pk and found.submit_token == token


def _refused(request: HttpRequest, question: Question, token: str) -> HttpResponse:
    """Show the page again with what was typed. Nothing was recorded."""
    question.interrupt.refresh_from_db()
    if _is_answered_already(request, question.interrupt, token):
        return _go_on(request, question)
    if not question.is_open:
        return _conflict(request, question)
    _keep(request, question)
    return _page(request, question, status=422)


def _keep(request: HttpRequest, question: Question) -> None:
    for sheet in question.sheets:
        if sheet.typed and drafts.own_fields(sheet.action, request.POST):
            drafts.keep(request.user, sheet.action, _typed(sheet))


def _conflict(request: HttpRequest, question: Question, *, stale: Any = None) -> HttpResponse:
    """Say who was faster or what changed. What was typed is kept, and shown."""
    _keep(request, question)
    current = _find(request, question.interrupt.pk)
    theirs = questions.read(request.user, current)
    filters = _filters(request)
    context = {
        "section": "inbox",
        "question": theirs,
        "mine": question,
        "verb": request.POST.get("decision", ""),
        "stale": stale,
        "newer": getattr(current, "superseded_by", None),
        "typed_anything": any(sheet.changed or sheet.feedback or sheet.result for sheet in question.sheets),
        "next": inbox.next_open(request.user, filters, besides=current.pk),
        "left": inbox.open_count(request.user, filters),
    }
    return render(request, "conflict.html", context, status=409)


def _go_on(request: HttpRequest, question: Question) -> HttpResponse:
    """Lead to the next question that waits: of the same pause first, then the oldest of the filter, else the inbox."""
    filters = _filters(request)
    found = question.interrupt
    words = _recorded_words(question, request.POST.get("decision", ""))
    following = inbox.next_of_pause(request.user, found) or inbox.next_open(request.user, filters, besides=found.pk)
    target = reverse("reviews:interrupt", args=[following]) if following else reverse("reviews:inbox")
    told = f"Recorded: {words}\n{found.title}. {found.agent.title} goes on with it now."
    return see_other(request, target + filters.along(), told)


def _recorded_words(question: Question, verb: str) -> str:
    """Say what was recorded: a form that was sent before may say another verb than what stands."""
    if question.several:
        return f"{len(question.sheets)} decisions"
    return question.did if question.has_decision else VERDICT_WORDS.get(verb, "decided")


# --------------------------------------------------------------------------------------------------- drafts and marking


def _typed(sheet: Sheet) -> QueryDict:
    return sheet.typed if sheet.typed is not None else QueryDict()


def _mark(request: HttpRequest, question: Question, verb: str) -> HttpResponse:
    """Mark one action of several; what stands for no verdict is shown again."""
    sheet = question.current
    if sheet is None or not question.can_be_decided:
        return _conflict(request, question)
    try:
        if problems := sheet.faults(sheet.decide(verb)):
            sheet.blame(problems)
            raise NotRecorded("invalid")
    except NotRecorded:
        sheet.verdict = ""
        drafts.keep(request.user, sheet.action, _typed(sheet), verdict="")
        return _page(request, question, status=422)
    drafts.keep(request.user, sheet.action, _typed(sheet), verdict=verb)
    following = question.next_undecided()
    return redirect(_address(request, question, following or sheet))


def _work(request: HttpRequest, question: Question, act: tuple[str, str]) -> HttpResponse:
    """Work a small button of a row: take a change back, open a value with hidden characters, or take these out."""
    sheet = question.current
    assert sheet is not None  # noqa: S101  # checked by the caller
    kind, name = act
    # The form of an undone row holds the asked text; a field that is missing would count as left out.
    worked = Sheet(sheet.action, sheet.typed, raw=False, acts={name: kind})
    fields = _typed(sheet).copy()
    if worked.edit is not None:
        for field_name, text in (worked.edit.data or {}).items():
            fields[field_name] = text
    drafts.keep(request.user, sheet.action, fields, verdict="")
    row_id = next((row.id for row in worked.rows if row.name == name), "")
    return redirect(f"{_address(request, question, sheet)}#{row_id}")


def _act(posted: QueryDict) -> tuple[str, str] | None:
    return next(((act, str(posted[act])) for act in ACTS if act in posted), None)


def _address(request: HttpRequest, question: Question, sheet: Sheet) -> str:
    action = {"action": sheet.number} if question.several else {}
    return reverse("reviews:interrupt", args=[question.interrupt.pk]) + _filters(request).along(**action)


def _filters(request: HttpRequest) -> Filters:
    """Return the filters of the list that the question was opened from: they go along in the address."""
    return replace(Filters.read(request.GET), status="open")


# ------------------------------------------------------------------------------------------------------------- the page


def _page(
    request: HttpRequest, question: Question, *, pause: list[Interrupt] | None = None, status: int = 200
) -> HttpResponse:
    found = question.interrupt
    pause = pause or questions.pause(request.user, found)
    beside = [question if other.pk == found.pk else questions.read(request.user, other) for other in pause]
    question.full = request.GET.get("full", "")
    conversation = history.conversation(found.thread_id)
    filters = _filters(request)
    place = inbox.place_of(request.user, found, filters)
    context = {
        "section": "inbox",
        "question": question,
        "questions": beside,
        "interrupt": found,
        "talk": talk.read(found.thread, conversation),
        "place": place,
        "open_total": place.total if filters.are_none else None,
        "filters": filters,
        "refused": status == 422,
        **_looked_at(request, found, pause),
    }
    return render(request, "interrupt.html", context, status=status)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _raw(text: str | None) -> bool | None:
    return {"1": True, "0": False}.get(text or "")

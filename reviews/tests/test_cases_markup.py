"""HC-04, by HTTP: what agents and people write is shown to the letter, on every page and in every fragment."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.urls import reverse

from agents.outcome import canonical_bytes
from agents.tests import graphs
from agents.tests.graphs import turns
from reviews.models import AuditEntry, Interrupt
from reviews.tests.cases.builders import FIELD_CASES
from reviews.tests.cast import Cast, ask_calls, file_outcome
from reviews.tests.door import Answer, Desk, Visitor, own

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]

VALUE = FIELD_CASES["HC-04"]["input"]
ARGS = VALUE["action_requests"][0]["args"]
FEEDBACK = "<script>document.title='p7'</script>"
SAID = """</title><img src=x onerror=alert(1)>{{ 7|add:7 }}<div hx-post=/approve hx-trigger=load>"""
FOREIGN = re.compile(r"\s*(?:[a-z]+:|//)", re.IGNORECASE)  # no address of the desk's own names a scheme or a host
NEVER_OURS = frozenset({"img", "iframe", "object", "embed", "base", "video", "audio", "style"})
ADDRESSES = frozenset({"href", "src", "action", "formaction", "srcdoc", "hx-get", "hx-post", "hx-put", "hx-delete"})
THEIRS = {("hx-get", "/admin"), ("hx-post", "/approve")}  # the payload's


class Living(HTMLParser):
    """Collects what is alive on a page and not the desk's own: elements, handlers, addresses; and all words."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.alive: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in NEVER_OURS or (tag == "script" and not given.get("src", "").startswith("/static/")):
            self.alive.append(tag)
        for name, value in given.items():
            foreign = name in ADDRESSES and FOREIGN.match(value)
            if name.startswith("on") or foreign or (name, value) in THEIRS:
                self.alive.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def assert_dead(answer: Answer) -> str:
    """Nothing of the payload lives on this page, and nothing could: return its words."""
    page = Living(answer.html)
    assert page.alive == [], answer.address
    assert "<b>key" not in answer.html
    policy = answer.response.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    return " ".join("".join(page.words).split())


def places(row: Interrupt) -> list[tuple[str, dict[str, Any]]]:
    """Every page and fragment that speaks of a question, with the words of its address."""
    pk, thread = [row.pk], [row.thread_id]
    return [
        (reverse("reviews:inbox"), {"status": "all", "q": "", "tool": ""}),
        (reverse("reviews:inbox"), {"q": SAID, "tool": SAID, "agent": SAID, "thread": SAID}),
        (reverse("reviews:row", args=pk), {"stayed": "1"}),
        (reverse("reviews:changed", args=pk), {"status": SAID}),
        (reverse("reviews:interrupt", args=pk), {}),
        (reverse("reviews:interrupt", args=pk), {"raw": "1"}),
        (reverse("reviews:interrupt", args=pk), {"full": "hx", "action": "1"}),
        (reverse("reviews:thread", args=thread), {}),
        (reverse("reviews:thread", args=thread), {"from": row.pk}),
        (reverse("reviews:threads"), {"agent": SAID, "status": SAID}),
        (reverse("reviews:agents"), {}),
        (reverse("reviews:audit"), {"q": SAID, "who": SAID}),
        (reverse("reviews:audit"), {}),
        *((reverse("reviews:entry", args=[seq]), {}) for seq in AuditEntry.objects.values_list("seq", flat=True)),
    ]


def look_everywhere(person: Visitor, row: Interrupt) -> dict[str, str]:
    """Open every place twice, as a page and as htmx does; return the words of the page's main places."""
    said = {}
    for address, query in places(row):
        for live in (False, True):
            answer = person.open(address, live=live, **query)
            assert answer.status == 200, address
            said[address + "?raw" * ("raw" in query)] = assert_dead(answer)
    return said


def test_nothing_an_agent_or_a_person_writes_comes_to_life(desk: Desk) -> None:
    desk.give(lambda: graphs.asks(VALUE))
    desk.say(SAID)
    row = Interrupt.objects.get()
    assert canonical_bytes(row.value) == canonical_bytes(VALUE)
    said = look_everywhere(desk.root, row)
    question = said[reverse("reviews:interrupt", args=[row.pk])]
    for words in (*ARGS, *ARGS.values(), VALUE["action_requests"][0]["name"]):
        assert words in question
    assert SAID in said[reverse("reviews:thread", args=[row.thread_id])]

    page = desk.ann.open(row)
    fragment = desk.ann.post(
        reverse("reviews:draft", args=[row.pk]),
        page.form("reject").fields | {own(row, "why"): FEEDBACK, own(row, "body", argument=True): SAID},
        live=True,
    )
    assert (fragment.status, SAID in assert_dead(fragment)) == (200, True)
    refused = desk.ann.press(desk.ann.open(row), "edit", body=SAID, why=FEEDBACK, ta="x\u202e")
    assert (refused.status, FEEDBACK in assert_dead(refused)) == (422, True)

    assert desk.ann.press(page, "reject", why=FEEDBACK).status == 303
    late = desk.ben.press(page, "reject", why=SAID)
    assert (late.status, SAID in assert_dead(late)) == (409, True)
    desk.work()
    assert desk.answer_to(row) == {"decisions": [{"type": "reject", "message": FEEDBACK}]}
    said = look_everywhere(desk.root, row)
    assert FEEDBACK in said[reverse("reviews:interrupt", args=[row.pk])]


def test_calls_results_and_words_of_the_conversation_are_dead_too(desk: Desk) -> None:
    hostile = f"{SAID}[a](javascript:alert(1)) ![i](http://127.0.0.1:9/x.png)"
    row = desk.ask(text=turns([("mail", {"to": hostile}), ("read", {"id": 1})], [("ask_user", {"question": hostile})]))
    desk.ann.press(desk.ann.open(row), "approve")
    desk.work()
    assert ("mail", {"to": hostile}) in desk.ran
    asked = Interrupt.objects.exclude(pk=row.pk).get()
    for one in (row, asked):
        said = look_everywhere(desk.root, one)
    assert f"mailed {hostile}" in said[reverse("reviews:thread", args=[row.thread_id])]


def test_downloads_are_files_and_never_pages(desk: Desk) -> None:
    row = desk.asks(VALUE)
    for query in ({"action": 1}, {"action": 1, "name": "close"}):
        response = desk.ann.open(reverse("reviews:download", args=[row.pk]), **query).response
        assert response.headers["Content-Type"] == "application/octet-stream"
        assert response.headers["Content-Disposition"].startswith("attachment")
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.content.decode() == ARGS["close"]


@pytest.mark.django_db(transaction=False)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("مرحبا بالعالم", ""),
        ("👨\u200d👩\u200d👧 and ❤\ufe0f", ""),
        ("pay\u202egnp.exe", "1 hidden character in to"),
        ("pa\u200by", "1 hidden character in to"),
        ("a\U000e0041\U000e0042", "2 hidden characters in to"),
        ("https://ex\u0430mple.com/a", "1 doubtful host name in to"),
    ],
    ids=["arabic", "family", "bidi", "zero width", "tags", "mixed host"],
)
def test_a_question_warns_of_what_cannot_be_seen_and_of_nothing_else(cast: Cast, text: str, words: str) -> None:
    (row,) = file_outcome(cast.thread, ask_calls(("pay", {"to": text})))
    ann = Visitor(cast.ann)
    page = ann.open(row)
    if not words:
        assert "hidden character" not in page
        assert "doubtful" not in page
        assert 'class="cp"' not in page.html
        return
    assert words in page
    assert 'class="cp"' in page.html
    assert ("hidden characters" in ann.open(reverse("reviews:inbox"))) is ("hidden" in words)


@pytest.mark.django_db(transaction=False)
def test_long_blanks_are_counted_and_a_foreign_host_is_spelled_out(cast: Cast) -> None:
    args = {"to": "a" + " " * 500 + "b", "url": "https://xn--bcher-kva.example/"}
    (row,) = file_outcome(cast.thread, ask_calls(("pay", args)))
    page = Visitor(cast.ann).open(row)
    assert "500 blanks" in page
    assert "bücher.example" in page

"""Typed text that outlives a session: sealed into the sign-in page, opened after the sign-in."""

from __future__ import annotations

from django.core import signing
from django.http import QueryDict

SALT = "reviews.kept"
SECONDS = 12 * 3600  # a lunch and a meeting; older seals are not opened
MOST = 200_000  # bytes of text; more than people type, less than a page should carry twice
_OURS = ("csrfmiddlewaretoken", "submit_token", "kept")


def seal(path: str, fields: QueryDict) -> str:
    """Sign the fields of a form that was sent to ``path``; "" when they are too many to carry."""
    plain = {name: fields.getlist(name) for name in fields if name not in _OURS}
    if sum(len(text) for texts in plain.values() for text in texts) > MOST:
        return ""
    return signing.dumps({"path": path, "fields": plain}, salt=SALT, compress=True)


def unseal(sealed: str) -> tuple[str, QueryDict] | None:
    """Return path and fields of a seal of ours; None when it is broken or too old."""
    try:
        content = signing.loads(sealed, salt=SALT, max_age=SECONDS)
    except signing.BadSignature:
        return None
    fields = QueryDict(mutable=True)
    for name, texts in content["fields"].items():
        fields.setlist(name, texts)
    return content["path"], fields

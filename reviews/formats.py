"""The formats of JSON Schema that people type: is a text a date, an address, a link? And how one is written.

Lenient where tools differ (a time without an offset is one to pydantic), because a refusal here is final. Formats that
are not listed say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, time
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from jsonschema import Draft202012Validator

_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:?\d{2})?"
_MOMENT = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}[Tt ]{_TIME}", re.ASCII)
_CLOCK = re.compile(_TIME, re.ASCII)
_DURATION = re.compile(r"-?P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)", re.ASCII)
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\.?$){_LABEL}(\.{_LABEL})*\.?", re.ASCII)


def words_of(name: str) -> str:
    """Say what a format asks for, such as "a date, such as 2027-05-31"; "" for one that is not checked."""
    return _FORMATS[name][1] if name in _FORMATS else ""


def fits(name: str, text: str) -> bool:
    """Tell whether a text has a format. Anything has one that is not known here."""
    if name not in _FORMATS:
        return True
    try:
        return _FORMATS[name][0](text)
    except (ValueError, ValidationError):
        return False


def _standard(name: str) -> Callable[[str], bool]:
    return lambda text: Draft202012Validator.FORMAT_CHECKER.conforms(text, name)


def _is_moment(text: str) -> bool:
    return bool(_MOMENT.fullmatch(text) and datetime.fromisoformat(_short(text).upper().replace(" ", "T")))


def _is_clock(text: str) -> bool:
    if not _CLOCK.fullmatch(text):
        return False
    time.fromisoformat(_short(text).upper())
    return True


def _short(text: str) -> str:
    """Cut a fraction to the microseconds that Python reads, and write a leap second as the one before it."""
    return re.sub(r"(:\d\d):60", r"\1:59", re.sub(r"(\.\d{6})\d+", r"\1", text))


def _is_email(text: str) -> bool:
    validate_email(text)
    return True


def _is_link(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path)) and _is_reference(text)


def _is_reference(text: str) -> bool:
    return not any(letter.isspace() or letter in '<>"{}|\\^`' for letter in text)


def _reads(kind: Callable[[str], object]) -> Callable[[str], bool]:
    return lambda text: kind(text) is not None


_LINK = (_is_link, "a link, such as https://example.org/page")
_FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "date": (_standard("date"), "a date, such as 2027-05-31"),
    "date-time": (_is_moment, "a date with a time, such as 2027-05-31T14:30:00Z"),
    "time": (_is_clock, "a time, such as 14:30:00"),
    "duration": (lambda text: bool(_DURATION.fullmatch(text)), "a duration, such as P3DT4H"),
    "email": (_is_email, "an e-mail address, such as ann@example.org"),
    "hostname": (lambda text: bool(_HOST.fullmatch(text)), "a host name, such as www.example.org"),
    "ipv4": (_reads(IPv4Address), "an IPv4 address, such as 192.0.2.1"),
    "ipv6": (_reads(IPv6Address), "an IPv6 address, such as 2001:db8::1"),
    "uri": _LINK,
    "iri": _LINK,
    "uri-reference": (_is_reference, "a link or a part of one, such as /page"),
    "uuid": (_standard("uuid"), "a UUID, such as 123e4567-e89b-12d3-a456-426614174000"),
}

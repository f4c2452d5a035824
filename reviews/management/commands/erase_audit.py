"""``manage.py erase_audit``: forget arguments and words that entries of the audit log commit to; the chain stays."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import QuerySet

from reviews import audit
from reviews.models import AuditEntry
from reviews.people import ADMINISTRATOR

WORD = "erase"


class Command(BaseCommand):
    help = (
        "Erase arguments, answers and reasons from the audit log, by entry or thread. The chain still verifies, and the"
        " erasure is an entry of its own. The thread itself, its questions and decisions are not touched."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("entries", nargs="*", type=int, metavar="ENTRY", help="number of an entry")
        parser.add_argument("--thread", default="", help="all entries of this thread, by its id")
        parser.add_argument("--by", required=True, metavar="NAME", help="the administrator who erases, for the log")
        parser.add_argument("--yes", action="store_true", help=f"do not ask for the word {WORD!r}")

    def handle(self, *args: Any, **options: Any) -> None:
        user = self._administrator(options["by"])
        found = list(self._chosen(options["entries"], options["thread"]))
        if not found:
            self.stdout.write("These entries hold nothing that could be erased.")
            return
        for entry in found:
            names = entry.secrets.filter(erased_at=None).order_by("name").values_list("name", flat=True)
            self.stdout.write(f"{entry.seq} {entry.kind}: {', '.join(names)}")
        if not options["yes"] and input(f"This cannot be undone. Type {WORD!r} to go on: ").strip() != WORD:
            raise CommandError("Nothing was erased.")
        with transaction.atomic():
            count = sum(audit.erase(entry, user=user, role=ADMINISTRATOR) for entry in found)
        self.stdout.write(f"Erased {count} values of {len(found)} entries. The chain holds: manage.py verify_audit.")

    def _administrator(self, name: str) -> User:
        user = User.objects.filter(username=name, is_active=True, is_superuser=True).first()
        if user is None:
            raise CommandError(f"{name} is no administrator of this desk. Nothing was erased.")
        return user

    def _chosen(self, entries: list[int], thread: str) -> QuerySet[AuditEntry]:
        if bool(entries) == bool(thread):
            raise CommandError("Name entries by their numbers, or one thread by --thread.")
        chosen = AuditEntry.objects.filter(thread_id=thread) if thread else AuditEntry.objects.filter(seq__in=entries)
        missing = sorted(set(entries) - set(chosen.values_list("seq", flat=True)))
        if missing or not chosen.exists():
            what = f"entry {', '.join(map(str, missing))}" if missing else f"thread {thread}"
            raise CommandError(f"The log has no {what}. Nothing was erased.")
        return chosen.filter(secrets__erased_at=None, secrets__isnull=False).distinct().order_by("seq")

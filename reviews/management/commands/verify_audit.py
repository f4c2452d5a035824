"""``manage.py verify_audit``: prove that the audit log is whole, or name its first bad entry."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from reviews.audit import examine


class Command(BaseCommand):
    help = "Check the chain of the audit log, and each decision against its entry. Exit code 1 when something is wrong."
    requires_migrations_checks = False

    def handle(self, *args: Any, **options: Any) -> None:
        report = examine()
        if not report.faults:
            self.stdout.write(f"OK: {report.count} entries, head {report.head}.")
            return
        for fault in report.faults:
            self.stderr.write(str(fault))
        raise SystemExit(1)

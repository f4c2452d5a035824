"""Give a desk its people: ``python -m reviews.tests.browser.staff``, with the environment of the desk.

``ann`` and ``ben`` review and operate all agents, and ``ann`` reads the audit log.
"""

from __future__ import annotations

import os
from typing import Any

import django

PASSWORD = "correct horse battery"
ROLES = {"ann": ("reviewer", "operator", "auditor"), "ben": ("reviewer", "operator")}


def hire() -> None:
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    from reviews.models import Grant

    users: Any = get_user_model().objects
    for name, roles in ROLES.items():
        user = users.create_user(name, password=PASSWORD)
        for role in roles:
            group, _ = Group.objects.get_or_create(name=f"{role}s")
            Grant.objects.get_or_create(group=group, role=role, agent=None)
            group.user_set.add(user)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    hire()

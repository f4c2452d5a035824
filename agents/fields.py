"""A model field that stores a value as its canonical bytes, so that what was digested is what is kept."""

from __future__ import annotations

from typing import Any

from django.db import models

from agents.outcome import canonical_bytes, from_canonical


class CanonicalField(models.BinaryField):  # type: ignore[type-arg]  # only the stubs have parameters
    """Any value with a canonical form; ``None`` is SQL NULL. Not searchable: it is bytes, because jsonb is lossy."""

    def from_db_value(self, value: bytes | memoryview | None, expression: Any, connection: Any) -> Any:
        return None if value is None else from_canonical(bytes(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(None if value is None else canonical_bytes(value), connection, prepared)

    def value_to_string(self, obj: models.Model) -> str:
        value = self.value_from_object(obj)
        return "" if value is None else canonical_bytes(value).decode("ascii")

    def to_python(self, value: Any) -> Any:
        return value

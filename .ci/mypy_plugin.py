"""django-stubs' plugin for mypy, less one hook that crashes on LangChain.

django-stubs 6.1.2 reads ``Annotated[Required[...], ...]``, which LangChain's typed dictionaries hold, as a model with
annotations and ends in an internal error. We write no annotated models, so the hook is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext
from mypy.types import Type
from mypy_django_plugin.main import NewSemanalDjangoPlugin


class DjangoPlugin(NewSemanalDjangoPlugin):
    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        return None if fullname.endswith(".Annotated") else super().get_type_analyze_hook(fullname)


def plugin(version: str) -> type[NewSemanalDjangoPlugin]:
    return DjangoPlugin

"""LangGraph's store in our database: its contract held against LangGraph's own, and agents that remember."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest
from langchain.tools import InjectedStore, ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.store.base import BaseStore, InvalidNamespaceError
from langgraph.store.memory import InMemoryStore

from agents import registry
from agents.memory import DjangoStore, Unstorable
from agents.models import StoreItem
from agents.tests import graphs
from agents.tests.driving import start, step

pytestmark = pytest.mark.django_db(transaction=True)

KEPT: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
    (("users", "ann"), "likes", {"food": "rice", "score": 3, "seen": True}),
    (("users", "ann"), "Likes", {"food": "tea", "score": 5.5}),
    (("users", "ann", "trips"), "oslo", {"nights": 2, "with": {"who": "ben", "n": 1}, "tags": ["a", "b"]}),
    (("users", "Ann"), "likes", {"food": "ice", "score": 1}),
    (("users", "ann%"), "odd", {"food": None}),
    (("teams", "desk"), "likes", {"text": "nul \0 and \ud800", "big": 2**70}),
]


def filled(store: BaseStore) -> BaseStore:
    for namespace, key, value in KEPT:
        store.put(namespace, key, value)
    return store


def found(items: list[Any]) -> list[Any]:
    return sorted(([*item.namespace, item.key], item.value) for item in items)


SEARCHES: list[tuple[tuple[str, ...], dict[str, Any] | None]] = [
    ((), None),
    (("users",), None),
    (("users", "ann"), None),
    (("user",), None),
    (("users", "ann"), {"food": "rice"}),
    (("users",), {"with": {"who": "ben"}}),
    (("users",), {"tags": ["a", "b"]}),
    (("users", "ann"), {"food": {"$ne": "rice"}}),
    (("users", "Ann"), {"score": {"$lte": 1}}),
    (("users", "ann%"), {"food": None}),
]


@pytest.mark.parametrize(("prefix", "wanted"), SEARCHES)
def test_a_search_finds_what_langgraphs_own_store_finds(prefix: tuple[str, ...], wanted: dict[str, Any] | None) -> None:
    ours, theirs = filled(DjangoStore()), filled(InMemoryStore())
    assert found(ours.search(prefix, filter=wanted, limit=50)) == found(theirs.search(prefix, filter=wanted, limit=50))


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"prefix": ("users",)},
        {"prefix": ("users", "*", "trips")},
        {"suffix": ("trips",)},
        {"suffix": ("ann", "*")},
        {"max_depth": 1},
        {"prefix": ("users",), "max_depth": 2, "limit": 2, "offset": 1},
    ],
)
def test_namespaces_are_listed_as_langgraphs_own_store_lists_them(asked: dict[str, Any]) -> None:
    assert filled(DjangoStore()).list_namespaces(**asked) == filled(InMemoryStore()).list_namespaces(**asked)


def test_a_range_and_pages_of_a_search() -> None:
    store = filled(DjangoStore())
    several = store.search(("users",), filter={"score": {"$gt": 1, "$lt": 5.5}})
    assert found(several) == [(["users", "ann", "likes"], KEPT[0][2])]
    pages = [store.search(("users",), limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({(item.namespace, item.key) for page in pages for item in page}) == 5
    with pytest.raises(ValueError, match=r"\$like"):
        store.search(("users",), filter={"food": {"$like": "r"}})


def test_values_come_back_as_they_were_put() -> None:
    store = filled(DjangoStore())
    for namespace, key, value in KEPT:
        item = store.get(namespace, key)
        assert item is not None
        assert (item.value, item.key, item.namespace) == (value, key, namespace)
    assert store.get(("users",), "nothing") is None


def test_a_put_replaces_and_a_delete_takes_away() -> None:
    store = filled(DjangoStore())
    first = store.get(("users", "ann"), "likes")
    store.put(("users", "ann"), "likes", {"food": "bread"})
    second = store.get(("users", "ann"), "likes")
    assert first is not None
    assert second is not None
    assert (second.value, second.created_at) == ({"food": "bread"}, first.created_at)
    assert second.updated_at >= first.updated_at
    store.delete(("users", "ann"), "likes")
    assert store.get(("users", "ann"), "likes") is None
    assert StoreItem.objects.count() == len(KEPT) - 1


async def test_the_async_half_does_the_same() -> None:
    store = DjangoStore()
    await store.aput(("a",), "k", {"n": 1})
    item = await store.aget(("a",), "k")
    assert item is not None
    assert item.value == {"n": 1}
    assert await store.alist_namespaces() == [("a",)]
    await store.adelete(("a",), "k")
    assert await store.asearch(("a",)) == []


@pytest.mark.parametrize("key", ["k\0", "k" * 501, "\ud800"])
def test_a_key_that_no_database_takes_is_refused_in_words(key: str) -> None:
    with pytest.raises(Unstorable, match="key of at most 500"):
        DjangoStore().put(("a",), key, {})


def test_a_value_or_namespace_that_cannot_be_kept_is_refused_in_words() -> None:
    with pytest.raises(Unstorable, match="'k' in 'a'"):
        DjangoStore().put(("a",), "k", {"it": object()})
    with pytest.raises(InvalidNamespaceError):
        DjangoStore().put(("a.b",), "k", {})
    with pytest.raises(NotImplementedError):
        DjangoStore().put(("a",), "k", {}, ttl=5)


# ---------------------------------------------------------------------------------------------------------- from agents


def remembering_tools() -> list[BaseTool]:
    @tool
    def note(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Remember a text."""
        store.put(("notes",), "last", {"text": text})
        return "noted"

    @tool
    async def recall(runtime: ToolRuntime) -> str:
        """Say what was remembered."""
        assert runtime.store is not None
        item = await runtime.store.aget(("notes",), "last")
        return item.value["text"] if item else "nothing"

    return [note, recall]


def test_what_a_tool_puts_another_thread_finds_and_it_outlives_the_process(shop: Any) -> None:
    seen: list[list[Any]] = []

    def build() -> graphs.Graph:
        return graphs.agent(lambda *told: None, policy={}, seen=seen, extra=remembering_tools())

    with registry.override("remembers", build):
        step(start("remembers", graphs.turns([("note", {"text": "rice"})])))
        step(start("remembers", graphs.turns([("recall", {})])))
    assert seen[-1][-1].content == "rice"
    item = DjangoStore().get(("notes",), "last")
    assert item is not None
    assert item.value == {"text": "rice"}


def test_another_process_finds_it(shop: Any) -> None:
    """Everything that this process holds in memory is gone there; only the database is the same."""
    from django.db import connection

    DjangoStore().put(("notes",), "last", {"text": "rice"})
    asked = (
        "import django; from django.conf import settings; import project.tests.settings as s;"
        "s.DATABASES['default']['NAME'] = __import__('sys').argv[1]; django.setup();"
        "from agents.memory import DjangoStore; print(DjangoStore().get(('notes',), 'last').value['text'])"
    )
    name = str(connection.settings_dict["NAME"])
    told = subprocess.run([sys.executable, "-c", asked, name], capture_output=True, text=True, check=False)
    assert told.stdout == "rice\n", told.stderr


def test_a_graph_with_a_store_of_its_own_keeps_it(shop: Any) -> None:
    own = InMemoryStore()

    def build() -> Any:
        return graphs.agent(lambda *told: None).copy(update={"store": own})

    with registry.override("own", build):
        assert registry.get("own").graph.store is own
    assert isinstance(registry.get("support").graph.store, DjangoStore)

"""Pages under ASGI, each in one thread from its first middleware to its last.

Django's own handler leaves the thread and comes back for every middleware, and gives each request a new thread with a
new database connection. Under load, and beside agents in the same process, most of a page's time went into that.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.urls import set_script_prefix

THREADS = 32  # pages at a time; who waits for the database holds one of them, and /healthz needs another


class PageHandler(ASGIHandler):
    """The ASGI application of all pages. No view of the desk is async, and none streams."""

    def __init__(self) -> None:
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(THREADS, "page")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"There is no page for a connection of type {scope['type']}.")
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        answer = asyncio.get_running_loop().run_in_executor(self._threads, self._answer, scope, body)
        leaving = asyncio.ensure_future(receive())
        await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():  # else nobody waits for it any more; what was asked for is done all the same
            leaving.cancel()
            await self.send_response(answer.result(), send)

    def _answer(self, scope: Any, body: IO[bytes]) -> Any:
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = type(self)
        response.close()  # its content stays; connections go back
        body.close()
        return response

"""Somebody who speaks HTTP to a desk that runs elsewhere, without a browser: pages, forms, and the socket of a page."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.sync.client import ClientConnection, connect

from reviews.tests.browser.staff import PASSWORD
from reviews.tests.pages import Page


class Caller:
    """``name`` signed in at ``url``. Redirects are not followed by themselves."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=30)
        page = Page(self.http.get("/sign-in/").text)
        (form,) = [form for form in page.forms if "password" in form.fields]
        answer = self.http.post("/sign-in/", data=form.fields | {"username": name, "password": PASSWORD})
        assert answer.status_code == 302, answer.text

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> httpx.Response:
        return self.http.get(path, params=query)

    def page(self, path: str) -> Page:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    def start(self, agent: str, text: str) -> str:
        """Start a thread; returns its id."""
        page = self.page("/threads/")
        (form,) = [form for form in page.forms if "agent" in form.fields]
        answer = self.http.post("/threads/", data=form.fields | {"agent": agent, "text": text})
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"]).rstrip("/").rpartition("/")[2]

    def question(self, thread_id: str, *, within: float = 30) -> str:
        """Wait for the first open question of a thread; returns its path."""
        deadline = time.monotonic() + within
        while not (found := re.search(r'href="(/interrupts/\d+/)', self.get(f"/?thread={thread_id}").text)):
            assert time.monotonic() < deadline, "no question came"
            time.sleep(0.05)  # another process tells an HTTP client nothing
        return found[1]

    def approve(self, path: str) -> httpx.Response:
        return self.send(path, self.page(path))

    def send(self, path: str, page: Page) -> httpx.Response:
        """Press approve on a question's page that was opened before."""
        return self.http.post(path, data=page.form_with("decision", "approve").fields | {"decision": "approve"})

    def comes_to(self, thread_id: str, status: str, *, within: float = 30) -> None:
        """Wait until a thread has come to ``status``, asking as a page that polls does."""
        deadline = time.monotonic() + within
        while True:
            answer = self.get(f"/threads/{thread_id}/events/", {"after": 0})
            if answer.status_code == 200 and answer.json()["status"] == status:
                return
            assert time.monotonic() < deadline, answer.text[-500:]
            time.sleep(0.05)

    def watch(self, thread_id: str, *, small: bool = False) -> ClientConnection:
        """Open the socket of a thread's page. A ``small`` one takes little that is not read."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        address = f"{self.url.replace('http', 'ws', 1)}/ws/?thread={thread_id}"
        headers = {"Cookie": cookies, "Origin": self.url}
        if not small:
            return connect(address, additional_headers=headers, max_size=None, compression=None)
        place = urlsplit(self.url)
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.connect((place.hostname, place.port))
        return connect(address, sock=line, additional_headers=headers, max_size=None, max_queue=1, compression=None)


def frames(line: ClientConnection) -> Iterator[dict[str, Any]]:
    """Yield what a line brings of streams: events, and where they stand."""
    for text in line:
        heard = json.loads(text)
        if "events" in heard or "at" in heard:
            yield heard

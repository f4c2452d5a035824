// Live pages. One socket, server to browser; a hint names what changed, and each region that shows it asks for itself
// again.
// While the line is down every region asks every 30 s. A form that somebody types in is never a region.
"use strict";
(() => {
  const POLL = 30_000, GATHER = 300, FIRST_WAIT = 500, LONGEST_WAIT = 30_000, SPEAK = 10_000, SIGNED_OUT = 4401;
  const WORDS = {
    live: ["on", "Live"],
    again: ["hollow busy", "Connecting again"],
    down: ["off", "Line down, asking every 30 s"],
    out: ["off", "Signed out"],
  };
  const line = document.getElementById("line");
  if (!line || !("WebSocket" in window)) return;
  let failures = 0, poll = 0, gathered = new Set(), gathering = 0, spoken = 0, unsaid = "", signedOut = false;
  let between = null;  // names heard while a page is on its way that was made before

  function say(state) {
    if (line.dataset.state === state) return;
    const [dot, words] = WORDS[state];
    line.dataset.state = state;
    line.querySelector(".dot").className = `dot ${dot}`;
    line.lastElementChild.textContent = words;
    warn(state === "down");
  }

  // Said on every page: what is shown may be old. What the server says of its workers stays beside it.
  function warn(isDown) {
    const banner = document.getElementById("banner");
    const told = banner?.querySelector("[data-line]");
    if (!banner || Boolean(told) === isDown) return;
    if (!isDown) return told.remove();
    const words = document.createElement("p");
    words.dataset.line = "";
    words.textContent =
      "The line to the desk is down. This page asks every 30 s; what you send is kept or refused in words.";
    banner.append(words);
  }

  // The number of open questions stands in the title too, for who looks at another tab.
  function number() {
    const count = parseInt(document.getElementById("open-count")?.textContent, 10) || 0;
    document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  }

  // What a page's other files hear of its socket: events of threads they watch, and that the line stands (again).
  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

  function refetch(names) {
    for (const region of document.querySelectorAll("[data-live]")) {
      const shown = region.dataset.live.split(" ");
      const isMeant = !names || names.has("everything") || shown.some((name) => names.has(name));
      if (isMeant) region.dispatchEvent(new CustomEvent("changed"));
    }
  }

  // Hints that come within 300 ms of each other make one request.
  function hear(names) {
    for (const name of names) {
      gathered.add(name);
      between?.add(name);
    }
    gathering ||= setTimeout(() => {
      const heard = gathered;
      gathered = new Set();
      gathering = 0;
      refetch(heard);
    }, GATHER);
  }

  // The first line asks for what changed since the page was made; after a broken one every region asks for itself.
  function connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const asked = new URLSearchParams(failures ? {} : { since: line.dataset.made });
    for (const one of document.querySelectorAll("[data-watch]")) asked.append("thread", one.dataset.watch);
    const socket = new WebSocket(`${scheme}//${location.host}${line.dataset.socket}?${asked}`);
    socket.addEventListener("open", () => {
      const missed = failures > 0;
      failures = 0;
      signedOut = false;
      clearInterval(poll);
      poll = 0;
      say("live");
      if (missed) refetch();
      tell("stream-line");
    });
    socket.addEventListener("message", (event) => {
      const heard = JSON.parse(event.data);
      if (Array.isArray(heard.changed)) hear(heard.changed);
      if (heard.events) tell("stream-events", heard);
      if (heard.at) tell("stream-at", heard.at);
    });
    socket.addEventListener("close", (event) => {
      failures += 1;
      if (event.code === SIGNED_OUT) signedOut = true;
      say(signedOut ? "out" : failures > 2 ? "down" : "again");
      poll ||= setInterval(() => {
        refetch();
        tell("stream-line");
      }, POLL);
      // Half of the wait is left to chance, so that a restart does not bring all pages back in one instant.
      const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures);
      setTimeout(connect, wait / 2 + Math.random() * wait / 2);
    });
  }

  // Counts only, and at most once in 10 s: a screen reader is not a ticker.
  function announce(words) {
    unsaid = words;
    const wait = Math.max(0, spoken + SPEAK - Date.now());
    setTimeout(() => {
      if (!unsaid) return;
      document.getElementById("announce").textContent = unsaid;
      unsaid = "";
      spoken = Date.now();
    }, wait);
  }

  document.addEventListener("htmx:after:swap", () => {
    number();
    const said = document.querySelector("[data-said]")?.dataset.said ?? "";
    if (said && said !== announce.last) announce(said);
    announce.last = said;
  });
  document.addEventListener("htmx:response:error", (event) => {
    if (event.detail?.ctx?.response?.status === 401) {
      signedOut = true;
      say("out");
    }
  });

  // Another page is shown in this one's place (decide.js): what its regions missed on the way they ask for now.
  document.addEventListener("page-asked", () => {
    between = new Set();
  });
  document.addEventListener("page-shown", () => {
    const missed = between ?? [];
    between = null;
    hear(missed);
  });

  // The back button may show a page from memory, as it was; its regions ask at once what has become of it.
  addEventListener("pageshow", (event) => {
    if (event.persisted) refetch();
  });

  connect();
})();

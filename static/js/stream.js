// A thread as it happens. Its events come over the page's one socket, each with its number; what is missing is asked
// for.
// Above stands the conversation as the server last showed it, up to number data-after; here only what was told since.
// All that is pushed is set as text. Writes go to the page once a frame, a few milliseconds at a time.
"use strict";
(() => {
  const tail = document.getElementById("tail");
  if (!tail || !("WebSocket" in window)) return;
  const talk = document.getElementById("talk");
  const pane = document.getElementById("run-live");
  const BUDGET = 8, MOST_NODES = 6, MOST_PANEL = 4_000, RETRY = 2_000;
  const HIDDEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f"
      + "\\u202a-\\u202e\\u2060-\\u2069\\ufeff\\u{e0000}-\\u{e0fff}]",
    "gu",
  );
  const TOOL_WORDS = {
    preparing: "preparing, nothing runs yet", proposed: "proposed", started: "running",
    output: "running", finished: "ran", failed: "ended in an error",
  };
  const NODE_WORDS = { started: "at work", finished: "done", failed: "failed", paused: "waits for a person" };
  const items = new Map(), lanes = new Map(), nodes = new Map(), panels = new Map();
  const waiting = new Map();  // number -> event that came before those in front of it
  let last = Number(talk.dataset.after), newest = last, queue = [], framed = false, asking = false, shown = new Map();

  // ------------------------------------------------------------------------------------------------ events, in order

  function receive(events) {
    for (const event of events) if (event.seq > last) waiting.set(event.seq, event);
    while (waiting.has(last + 1)) {
      last += 1;
      queue.push(waiting.get(last));
      waiting.delete(last);
    }
    if (queue.length && !framed) {
      framed = true;
      requestAnimationFrame(frame);
    }
    if (waiting.size || newest > last) ask();
  }

  async function ask() {
    if (asking) return;
    asking = true;
    const before = last;
    try {
      const response = await fetch(`${tail.dataset.events}?after=${last}`, { headers: { Accept: "application/json" } });
      if (!response.ok) return;
      const page = await response.json();
      asking = false;
      if (page.gap) await begin();
      else receive(page.events);
      if (page.more && last > before) ask();
      else newest = last;
    } catch {
      setTimeout(ask, RETRY);  // the line's own words say that it is down
    } finally {
      asking = false;
    }
  }

  // What is missing is gone by now: begin where the conversation stands.
  async function begin() {
    const response = await fetch(tail.dataset.events, { headers: { Accept: "application/json" } });
    if (!response.ok) return;
    const page = await response.json();
    last = page.last;
    for (const seq of waiting.keys()) if (seq <= last) waiting.delete(seq);
    queue = [];
    for (const item of [...items.values()]) drop(item);
    document.getElementById("live")?.dispatchEvent(new CustomEvent("changed"));
    if (page.more) ask();
  }

  document.addEventListener("stream-events", (event) => {
    if (event.detail.thread === tail.dataset.watch) receive(event.detail.events);
  });
  document.addEventListener("stream-at", (event) => {
    newest = Math.max(newest, event.detail[tail.dataset.watch] ?? 0);
    if (newest > last) ask();
  });
  document.addEventListener("stream-line", ask);

  // ------------------------------------------------------------------------------------------------ frames

  function frame() {
    const end = tail.getBoundingClientRect().bottom;
    const follows = end > 0 && end <= innerHeight + 8;
    const until = performance.now() + BUDGET;
    let done = 0;
    while (done < queue.length && (done % 20 || performance.now() < until)) apply(queue[done++]);
    queue = queue.slice(done);
    for (const item of items.values()) if (item.stale) item.paint();
    if (pane) pane.querySelector("[data-number]").textContent = `event ${last}`;
    if (follows) {
      const grown = tail.getBoundingClientRect().bottom - Math.max(end, 0);
      if (grown > 0 && end + grown > innerHeight - 16) scrollBy({ top: grown, behavior: "instant" });
    }
    framed = queue.length > 0;
    if (framed) requestAnimationFrame(frame);
  }

  function apply({ seq, run, kind, data }) {
    switch (kind) {
      case "delta": return say(seq, data);
      case "message": return stand(seq, run, data);
      case "call": return call(seq, data.lane, data.id, data.call, { name: data.name, state: "preparing" });
      case "tool": return call(seq, data.lane, data.message, data.call, data);
      case "node": return step(data);
      case "custom": return panel(data);
      case "interrupt": return note(seq, "wait", "A question is open", "It is filed, and stands here in a moment.");
      case "error": return note(seq, "red", "The run ended in an error", data.error);
      case "end": return nodes.forEach((node) => node.state === "started" && node.set("finished"));
    }
  }

  // ------------------------------------------------------------------------------------------------ messages

  const key = (lane, ...ids) => JSON.stringify([lane, ...ids]);
  const visible = (text) =>
    text.replace(HIDDEN, (sign) => `[U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

  function say(seq, data) {
    const item = message(data.lane, data.id);
    if (!item) return;
    item.seq = seq;
    item.node ||= data.node ?? "";
    if (data.type === "reasoning") item.reasoning += data.text;
    else item.text += data.text;
    item.stale = true;
  }

  function stand(seq, run, data) {
    const id = key(data.lane, data.id);
    if (data.gone) return void (items.has(id) && drop(items.get(id)));
    if (data.role === "system" || data.role === "tool") return;
    const streamed = items.get(key(data.lane, data.replaces || data.id));
    if (streamed && data.replaces) {
      items.delete(streamed.key);
      Object.assign(streamed, { key: id, id: data.id });
      items.set(id, streamed);
    }
    if (data.text || streamed) {
      const item = message(data.lane, data.id, data.role === "human" ? run : "");
      if (item) {
        Object.assign(item, { seq, stale: true, finished: true, withheld: Boolean(data.withheld) });
        if (!data.same) item.text = data.text ?? "";
      }
    }
    for (const made of data.calls) call(seq, data.lane, data.id, made.id, { name: made.name, state: "proposed" });
  }

  function message(lane, id, run = null) {
    const name = key(lane, id);
    if (!items.has(name)) {
      if (!lane && shown.has(id)) return null;  // it stands above
      items.set(name, new Message(lane, id, run));
    }
    return items.get(name);
  }

  class Message {
    constructor(lane, id, run) {
      Object.assign(this, { lane, id, key: key(lane, id), text: "", reasoning: "", node: "" });
      Object.assign(this, { seq: 0, finished: false, beside: false });
      this.written = 0;  // characters of the text that stand on the page
      this.shape = null;
      this.body = make("div");
      this.state = make("span");
      const queued = run && document.querySelector(`[data-run="${CSS.escape(run)}"]`);
      // In a lane a human message is what a graph asks the agent inside it: no person's words.
      const human = run !== null && run !== "" && !lane;
      this.asked = Boolean(lane && run);
      this.name = human ? queued?.dataset.author ?? tail.dataset.person : speaker(lane);
      this.human = human;
      const caption = make("figcaption", "", make("strong", "", this.name), this.state);
      this.element = make("figure", human ? "hand" : "said", caption, this.body);
      place(lane, this.element);
    }

    paint() {
      this.stale = false;
      const caption = this.caption();
      if (this.state.textContent !== caption) this.state.textContent = caption;
      if (this.withheld && !this.note) {
        this.note = make("p", "quiet", "Some of this text is kept from the stream by the agent.");
        this.element.append(this.note);
      }
      this.think();
      if (!this.text.startsWith(this.shape ?? "")) this.clear();
      this.write();
      this.paragraph?.classList.toggle("stream", !this.finished);
    }

    // Where several branches of one lane write at the same time, each says from which it comes.
    caption() {
      if (this.human || this.asked) return this.asked ? "was asked" : "";
      this.beside ||= [...items.values()].some(
        (other) => other instanceof Message && other.lane === this.lane && !other.finished
          && other.node && other.node !== this.node,
      );
      const where = this.beside && this.node ? ` · ${visible(this.node)}` : "";
      return (this.finished ? "wrote" : "is writing, not finished") + where;
    }

    think() {
      if (!this.reasoning) return;
      if (!this.thought) {
        this.thought = make("p", "plain");
        this.thoughts = make("details", "bag", make("summary", "", "Reasoning, not part of the answer"), this.thought);
        this.element.insertBefore(this.thoughts, this.body);
      }
      const text = visible(this.reasoning);
      if (this.thought.textContent.length !== text.length) this.thought.textContent = text;
    }

    clear() {
      this.body.replaceChildren();
      this.paragraph = null;
      this.written = 0;
    }

    // Text grows at its end only; a blank line begins a paragraph, as in the finished message.
    write() {
      for (let rest = this.text.slice(this.written); rest; ) {
        const end = rest.indexOf("\n\n");
        const piece = end < 0 ? rest : rest.slice(0, end);
        if (this.paragraph ? piece : piece.trim()) {
          this.paragraph ??= this.body.appendChild(make("p", "plain"));
          const open = this.paragraph.firstChild ?? this.paragraph.appendChild(new Text());
          open.appendData(visible(piece));
        }
        if (end >= 0) {
          this.paragraph?.classList.remove("stream");
          this.paragraph = null;
        }
        rest = end < 0 ? "" : rest.slice(end + 2);
      }
      this.written = this.text.length;
      this.shape = this.text;
    }
  }

  // ------------------------------------------------------------------------------------------------ tool calls

  // A call that is only being made is never something to approve: questions come from the server alone.
  function call(seq, lane, id, made, told) {
    const name = key(lane, id, made);
    let item = items.get(name);
    if (!item) {
      if (shown.get(id)?.get(made)?.querySelector(".result")) return;
      item = new Call(lane, id, made);
      items.set(name, item);
    }
    item.seq = seq;
    if (told.name) item.name = told.name;
    if (told.state === "started") item.text = "";
    item.text = told.state === "output" ? item.text + (told.text ?? "") : told.text ?? item.text;
    item.withheld ||= Boolean(told.withheld);
    item.state = told.state;
    item.stale = true;
  }

  class Call {
    constructor(lane, id, made) {
      Object.assign(this, { lane, id, made, key: key(lane, id, made), name: "", text: "", state: "" });
      this.title = make("span", "tool");
      this.chip = make("span", "chip");
      this.output = make("pre");
      this.output.hidden = true;
      this.element = make("article", "call", make("header", "", this.title, this.chip), this.output);
      this.host();
    }

    // Once the server shows the call, what is told of it stands inside that.
    host() {
      const above = this.lane ? null : shown.get(this.id)?.get(this.made);
      if (above) {
        this.element.classList.remove("call");
        this.element.classList.add("telling");
        this.title.hidden = true;
        above.append(this.element);
      } else {
        place(this.lane, this.element);
      }
    }

    paint() {
      this.stale = false;
      this.title.textContent = visible(this.name || "a tool");
      this.chip.textContent = TOOL_WORDS[this.state] ?? this.state;
      const isRunning = this.state === "started" || this.state === "output";
      this.chip.dataset.tone = this.state === "failed" ? "red" : isRunning ? "now" : "";
      const text = this.withheld ? "The agent keeps this result from the stream." : this.text.slice(-20_000);
      this.output.textContent = visible(text);
      this.output.hidden = !text;
    }
  }

  // ----------------------------------------------------------------------------------------------- the run, in a panel

  function step(data) {
    const name = key(data.lane, data.task);
    if (data.node.startsWith("__")) return;
    if (!nodes.has(name)) {
      const words = make("small");
      const element = make("li", "", symbol("clock"), make("span", "", laneWords(data.lane, data.node)), words);
      const set = (state) => {
        nodes.get(name).state = state;
        words.textContent = NODE_WORDS[state] ?? state;
        const picture = { finished: "#i-check", failed: "#i-warn" }[state] ?? "#i-clock";
        element.firstChild.firstChild.setAttribute("href", picture);
      };
      nodes.set(name, { element, set });
      pane.querySelector("ul").append(element);
      pane.hidden = false;
    }
    nodes.get(name).set(data.state);
    for (const [old, node] of nodes) {
      if (nodes.size <= MOST_NODES) break;
      node.element.remove();
      nodes.delete(old);
    }
  }

  // What an agent tells on a channel of its own: texts gather, anything else shows its newest value.
  function panel(data) {
    const name = data.channel || "custom";
    if (!panels.has(name)) {
      const value = make("pre");
      value.tabIndex = 0;
      panels.set(name, value);
      pane.querySelector("[data-panels]").append(make("section", "", make("h3", "", visible(name)), value));
      pane.hidden = false;
    }
    const value = panels.get(name);
    const isText = typeof data.data === "string";
    const before = value.textContent ? `${value.textContent}\n` : "";
    const text = isText ? `${before}${visible(data.data)}` : visible(JSON.stringify(data.data, null, 1));
    value.textContent = text.slice(isText ? -MOST_PANEL : 0).slice(0, MOST_PANEL);
  }

  function note(seq, tone, title, words) {
    const name = key("note", tone, title);
    if (items.has(name)) drop(items.get(name));
    const picture = symbol(tone === "red" ? "warn" : "clock");
    const element = make("div", "notice", picture, make("strong", "", title), make("span", "", visible(words)));
    element.dataset.tone = tone;
    items.set(name, { key: name, seq, lane: "", element });
    place("", element);
  }

  // ------------------------------------------------------------------------------------------------ places

  const laneWords = (lane, node = "") =>
    [...lane.split("|").map((part) => part.split(":")[0]), node].filter(Boolean).join(" › ");
  const speaker = (lane) => (lane ? laneWords(lane) : tail.dataset.agent);

  // Branches, subgraphs and agents inside tools each write in a lane of their own.
  function place(lane, element) {
    if (!lane) return void tail.append(element);
    if (!lanes.has(lane)) {
      const box = make("section", "lane", make("h3", "", `Beside it: ${visible(laneWords(lane))}`));
      box.setAttribute("aria-label", laneWords(lane));
      lanes.set(lane, box);
      tail.append(box);
    }
    lanes.get(lane).append(element);
  }

  function drop(item) {
    item.element.remove();
    items.delete(item.key);
    const box = lanes.get(item.lane);
    if (box && box.childElementCount === 1) {
      box.remove();
      lanes.delete(item.lane);
    }
  }

  // The server showed the conversation anew: what stands there needs no place here. Before the next paint, so nothing
  // jumps.
  function settle() {
    const after = Number(talk.dataset.after);
    shown = new Map();
    for (const element of talk.querySelectorAll("[data-message]")) {
      const calls = shown.get(element.dataset.message) ?? new Map();
      if (element.dataset.call !== undefined) calls.set(element.dataset.call, element);
      shown.set(element.dataset.message, calls);
    }
    for (const item of [...items.values()]) {
      const stands = !item.lane && shown.has(item.id);
      const above = stands ? shown.get(item.id).get(item.made) : null;
      if (item.seq <= after || (stands && !item.made) || above?.querySelector(".result")) {
        if (item.thoughts?.open) reopen(item.id);
        drop(item);
      }
      else if (above && !above.contains(item.element)) item.host();
    }
  }

  // Whoever reads what a model thought goes on reading when the finished message takes its place.
  function reopen(id) {
    const bag = talk.querySelector(`figure[data-message="${CSS.escape(id)}"] > .bag`);
    if (bag) bag.open = true;
  }

  function make(tag, look = "", ...inside) {
    const element = document.createElement(tag);
    if (look) element.className = look;
    element.append(...inside);
    return element;
  }

  function symbol(name) {
    const space = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(space, "svg");
    const use = document.createElementNS(space, "use");
    picture.setAttribute("class", "i");
    picture.setAttribute("aria-hidden", "true");
    use.setAttribute("href", `#i-${name}`);
    picture.append(use);
    return picture;
  }

  settle();
  const watched = { childList: true, subtree: true, attributes: true, attributeFilter: ["data-after"] };
  new MutationObserver(settle).observe(talk, watched);
  ask();
})();

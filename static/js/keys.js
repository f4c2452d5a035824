// Keys. Ctrl or Cmd and Enter send the box one types in; bare letters only move, never decide, and can be switched off.
"use strict";
(() => {
  const typing = (element) => element.closest("input, select, textarea, [contenteditable]");

  function send(event) {
    const box = event.target.closest("[data-verb], .composer");
    if (box) {
      box.querySelector("button[name=decision], button.primary")?.click();
    } else if (event.target.closest(".args")) {
      event.target.form?.querySelector("[data-verb] :is(textarea, button)")?.focus();
    } else {
      return;
    }
    event.preventDefault();
  }

  function move(step) {
    const rows = [...document.querySelectorAll(".inbox .what a, .timeline .what > a")];
    if (!rows.length) {
      document.querySelector(step > 0 ? "a[data-key=j]" : "a[data-key=k]")?.click();
      return;
    }
    const open = rows.findIndex((row) => row.ariaCurrent === "true");
    const here = rows.includes(document.activeElement) ? rows.indexOf(document.activeElement) : open;
    rows[Math.max(0, Math.min(rows.length - 1, here < 0 ? 0 : here + step))].focus();
  }

  // Arrows move along a timeline only while the focus is in it: elsewhere they scroll.
  function step(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !event.target.closest(".timeline")) return;
    event.preventDefault();
    move(by);
  }

  const LETTERS = {
    j: () => move(1),
    k: () => move(-1),
    "/": () => document.querySelector("input[type=search]")?.focus(),
    "?": () => document.querySelector("a[data-key=help]")?.click(),
    u: () => document.querySelector("a[data-key=u]")?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.repeat && event.key === "Enter") return;
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") send(event);
    if (event.key === "Escape" && event.target.matches("input[type=search]")) event.target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    step(event);
    if (!("letters" in document.body.dataset)) return;
    const act = LETTERS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();

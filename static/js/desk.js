// A form is sent once; what is typed is kept as a draft shortly after typing stops. Without this file the buttons do
// both.
"use strict";
(() => {
  const PAUSE = 700, STOPPED = 20_000;
  const timers = new WeakMap();

  // A form may be sent again at any time: the server answers by the submit token.
  function release(form) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    if (form.dataset.sent || event.submitter?.getAttribute("aria-disabled") === "true") {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "1";
    clearTimeout(timers.get(form));
    event.submitter?.setAttribute("aria-busy", "true");
    setTimeout(release, STOPPED, form);  // somebody pressed Stop, and the page is still here
  });

  document.addEventListener("release", (event) => release(event.target));

  // The back button shows a page from memory.
  addEventListener("pageshow", (event) => {
    if (event.persisted) [...document.forms].forEach(release);
  });

  // What the page before was told on its way to this one (decide.js).
  const words = sessionStorage.getItem("words");
  sessionStorage.removeItem("words");
  if (words) document.querySelector("[data-notices]")?.insertAdjacentHTML("afterend", words);

  document.addEventListener("click", (event) => {
    if (event.target.closest("[aria-disabled=true]")) event.preventDefault();
  });

  // data-keeps on a form names its draft region; the region posts the form and shows what the server made of it.
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    const keeper = form?.dataset.keeps && document.getElementById(form.dataset.keeps);
    if (!keeper) return;
    // What was locked for want of a change is open now; the server has the last word.
    for (const button of form.querySelectorAll("[data-verb] [aria-disabled]")) button.removeAttribute("aria-disabled");
    clearTimeout(timers.get(form));
    timers.set(form, setTimeout(() => {
      if (!form.dataset.sent) keeper.dispatchEvent(new CustomEvent("keep"));
    }, PAUSE));
  });
})();

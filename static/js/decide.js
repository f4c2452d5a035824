// A decision is sent beside the page, not by leaving it: the request is on its way at once, a desk that does not answer
// costs nothing that was typed, and what the desk refuses takes the place of the content. Without this file the form
// sends itself.
"use strict";
(() => {
  const LONGEST = 20_000;

  async function send(form, submitter) {
    let answer, text;
    try {
      // Read as attributes: a field of the form may be named "action".
      answer = await fetch(submitter.getAttribute("formaction") ?? form.getAttribute("action"), {
        method: "POST",
        body: new URLSearchParams(new FormData(form, submitter)),
        headers: { "Sent-Beside": "1" },
        redirect: "manual",
        signal: AbortSignal.timeout(LONGEST),
      });
      text = await answer.text();
    } catch {
      return fail(form, submitter);
    }
    const next = answer.headers.get("Go-To");
    if (next) return location.assign(next);
    const page = new DOMParser().parseFromString(text, "text/html");
    if (answer.status < 400 || answer.status >= 500 || !page.querySelector("main")) return fail(form, submitter);
    show(page);
  }

  // No answer, or none of ours. The submit token makes it one decision, however often it is sent.
  function fail(form, submitter) {
    form.dispatchEvent(new CustomEvent("release", { bubbles: true }));
    form.querySelector("[data-unsent]")?.remove();
    const words = document.createElement("p");
    words.className = "error";
    words.dataset.unsent = "";
    words.setAttribute("role", "alert");
    words.textContent =
      "The desk did not answer. What you typed is still here. Press again: a decision is never recorded twice.";
    submitter.before(words);
  }

  function show(page) {
    const main = page.querySelector("main");
    document.querySelector("main").replaceWith(main);
    if (!page.querySelector("header.bar")) document.querySelector("header.bar")?.remove();
    document.title = page.title;
    htmx.process(main);
    scrollTo(0, 0);
    main.querySelector("[autofocus]")?.focus();
  }

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.submitter?.name !== "decision") return;
    event.preventDefault();
    send(event.target, event.submitter);
  });
})();

// A decision is sent beside the page, not by leaving it: the request is on its way at once, a desk that does not answer
// costs nothing that was typed, and what comes next takes the place of the content: the next question, or what the desk
// refuses. Nothing is loaded anew, the line stays open. Without this file the form sends itself.
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
    if (next) return go(next, text);
    const page = read(text);
    if (answer.status < 400 || answer.status >= 500 || !page.querySelector("main")) return fail(form, submitter);
    show(page);
  }

  // Show the next page with the desk's words on it. Whatever is not as usual is left to the browser: a sign-in, a desk
  // that fails or was upgraded meanwhile, a page that needs other scripts.
  async function go(address, words) {
    document.dispatchEvent(new CustomEvent("page-asked"));
    try {
      const answer = await fetch(address, { signal: AbortSignal.timeout(LONGEST) });
      const page = read(await answer.text());
      if (!answer.ok || !page.getElementById("line") || needsMore(page)) throw new Error(answer.status);
      history.pushState(null, "", answer.url + new URL(address, location).hash);
      at = here();
      page.querySelector("[data-notices]")?.insertAdjacentHTML("afterend", words);
      show(page);
    } catch {
      sessionStorage.setItem("words", words);
      return location.assign(address);
    }
    document.dispatchEvent(new CustomEvent("page-shown"));
  }

  const read = (text) => new DOMParser().parseFromString(text, "text/html");
  const files = (page) => [...page.querySelectorAll("script[src], link[rel=stylesheet]")]
    .map((one) => one.getAttribute("src") ?? one.getAttribute("href"));

  function needsMore(page) {
    const loaded = new Set(files(document));
    return files(page).some((file) => !loaded.has(file));
  }

  // Back and forward leave a page that was shown in place; a jump within one does not.
  const here = () => location.pathname + location.search;
  let at = here();
  addEventListener("popstate", () => {
    if (here() !== at) location.reload();
  });

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
    for (const id of ["open-count", "banner-words"]) {
      const shown = document.getElementById(id), newer = page.getElementById(id);
      if (!shown || !newer) continue;
      shown.replaceWith(newer);
      htmx.process(newer);
    }
    document.title = page.title;
    htmx.process(main);
    scrollTo(0, 0);
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target) target.scrollIntoView();
    else (main.querySelector("[autofocus]") ?? main.querySelector("h1[tabindex]"))?.focus();
  }

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.submitter?.name !== "decision") return;
    event.preventDefault();
    send(event.target, event.submitter);
  });
})();

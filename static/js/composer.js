// The box one writes in stays on and keeps the focus while the agent works: what is sent leaves it, the page does not.
// Without this file the form is sent as any other.
"use strict";
(() => {
  // Small acts on the queue leave the page and the focus where they are; the server has the last word on the order.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!("quiet" in form.dataset) || event.submitter?.getAttribute("aria-disabled") === "true") return;
    event.preventDefault();
    if (form.dataset.busy) return;
    form.dataset.busy = "1";
    try {
      const body = new FormData(form, event.submitter);
      const response = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
      if (response.status === 422) {
        document.getElementById("announce").textContent = (await response.text()).slice(0, 400);
      }
      else if (!response.ok) return form.submit();
    } catch {
      document.getElementById("announce").textContent = "Nothing was changed: the desk cannot be reached.";
    } finally {
      delete form.dataset.busy;
    }
    document.getElementById("live")?.dispatchEvent(new CustomEvent("changed"));
  }, { capture: true });

  const form = document.querySelector(".composer[data-sends]");
  if (!form) return;
  const box = form.elements.text, problem = form.querySelector("[data-problem]");
  let sending = false;

  // What an empty box says changes with the thread; the box itself is no part of what is fetched.
  const hint = () => (box.placeholder = document.getElementById("send")?.dataset.hint ?? box.placeholder);
  const watched = { childList: true, subtree: true, attributes: true, attributeFilter: ["data-hint"] };
  new MutationObserver(hint).observe(form, watched);

  function token() {
    const bytes = crypto.getRandomValues(new Uint8Array(18));
    return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
  }

  function say(words) {
    problem.textContent = words;
    problem.hidden = !words;
    if (words) box.setAttribute("aria-invalid", "true");
    else box.removeAttribute("aria-invalid");
  }

  // Before desk.js: a message that is under way is one message, however often one presses.
  form.addEventListener("submit", async (event) => {
    const button = event.submitter;
    if (button?.name && button.name !== "send") return;
    event.preventDefault();
    if (sending) return;
    const data = new FormData(form, button), sent = box.value;
    sending = true;
    button?.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(form.action, { method: "POST", body: data, headers: { "HX-Request": "true" } });
      if (response.status === 422) return say((await response.text()).slice(0, 400));
      if (!response.ok) return form.submit();  // signed out, or not allowed any more: its page says what to do
      say("");
      form.elements.submit_token.value = token();
      box.value = box.value.startsWith(sent) ? box.value.slice(sent.length) : box.value;
      box.focus();
      document.getElementById("live")?.dispatchEvent(new CustomEvent("changed"));
    } catch {
      say("Not sent: the desk cannot be reached. Your text stays here; send it again when the line is back.");
    } finally {
      sending = false;
      button?.removeAttribute("aria-busy");
    }
  });
})();

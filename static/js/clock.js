// What goes by while a page is open: ages grow, marks of who looks come to their end, and one's own mark is renewed.
// Without this file ages stand still until the page is loaded again, and a mark ends two minutes after the page was
// opened.
"use strict";
(() => {
  const MINUTE = 60, HOUR = 3_600, DAY = 86_400;
  const made = Number(document.getElementById("line")?.dataset.made);
  if (!made) return;
  const ahead = Date.now() / 1_000 - made;  // by how much this machine's clock is before the desk's, in seconds
  const now = () => Date.now() / 1_000 - ahead;
  const asked = new Set();  // regions, each with the end of a mark that it was asked about
  let renewed = now();

  // The same words as the server's.
  function words(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < MINUTE) return `${whole} s`;
    if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min`;
    const minutes = String(Math.floor(whole % HOUR / MINUTE)).padStart(2, "0");
    if (whole < DAY) return `${Math.floor(whole / HOUR)} h ${minutes} min`;
    const days = Math.floor(whole / DAY);
    return `${days} day${days === 1 ? "" : "s"} ${Math.floor(whole % DAY / HOUR)} h`;
  }

  function tick() {
    for (const time of document.querySelectorAll("time[data-since]")) {
      const said = words(now() - Number(time.dataset.since));
      if (time.textContent !== said) time.textContent = said;
    }
    for (const mark of document.querySelectorAll("[data-until]")) {
      const region = mark.closest("[data-live]"), key = `${region.id} ${mark.dataset.until}`;
      if (Number(mark.dataset.until) >= now() || asked.has(key)) continue;
      asked.add(key);
      region.dispatchEvent(new CustomEvent("changed"));
    }
    const look = document.getElementById("look");
    if (look && now() - renewed >= Number(look.dataset.every) && document.visibilityState === "visible") {
      renewed = now();
      look.dispatchEvent(new CustomEvent("still-here"));
    }
  }

  setInterval(tick, 1_000);
  document.addEventListener("visibilitychange", tick);
})();

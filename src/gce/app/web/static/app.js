// A run's page shows what is new; lists and answers are moved through by keys. Everything works without this file.
"use strict";

const FIGURES_EVERY = 30000; // milliseconds: to draw figures takes the server longer than all else

const live = document.querySelector("[data-events]");
if (live) {
  const events = new EventSource(live.dataset.events);
  let seen = live.dataset.seen, drawn = Date.now();
  events.onmessage = async event => {
    if (event.data === seen) return; // The page shows it already.
    seen = event.data;
    const answer = await fetch(live.dataset.live);
    if (!answer.ok) return;
    // The server's own template, in which everything is escaped; a document made this way runs no script.
    const part = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
    if (part) document.getElementById("live").replaceWith(part);
    document.getElementById("stale").hidden = false;
    if (Date.now() - drawn < FIGURES_EVERY || document.hidden) return;
    drawn = Date.now();
    for (const picture of document.querySelectorAll("img[data-figure]")) {
      const place = new URL(picture.src);
      place.searchParams.set("at", String(drawn));
      picture.src = place.href;
    }
  };
  addEventListener("pagehide", () => events.close());
}

const links = [...document.querySelectorAll("[data-keys] li > a")];
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, summary, pre, .wide")) return;
  const step = { j: 1, ArrowDown: 1, ArrowRight: 1, k: -1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const across = event.key === "ArrowRight" || event.key === "ArrowLeft" || !links.length;
  if (!links.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) return; // They scroll an answer.
  if (!across) {
    const now = links.indexOf(document.activeElement);
    const next = links[Math.max(0, Math.min(links.length - 1, now < 0 ? 0 : now + step))];
    if (now !== links.length - 1 || step < 0) {
      next.focus();
      event.preventDefault();
      return;
    }
  }
  const link = document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]");
  if (link) { event.preventDefault(); link.click(); }
});

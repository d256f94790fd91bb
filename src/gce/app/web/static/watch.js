// Shows what a job says while it runs; when it is over, the page is loaded again with its result.
"use strict";
const watched = document.querySelector("[data-watch]");
if (watched) {
  const state = document.getElementById("state"), log = document.getElementById("log");
  const source = new EventSource(watched.dataset.watch);
  source.addEventListener("state", (event) => {
    const found = JSON.parse(event.data).state;
    if (state.textContent !== found) state.textContent = found;
    state.className = "state " + found;
  });
  source.addEventListener("log", (event) => {
    if (!log) return;
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    log.textContent = JSON.parse(event.data);
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  source.addEventListener("over", () => { source.close(); location.reload(); });
}

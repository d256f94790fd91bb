// Shows what a job says while it runs; when it is over, the page is loaded again with its result.
"use strict";
const watched = document.querySelector("[data-watch]");
if (watched) {
  const [state, log, run] = ["state", "log", "run"].map((id) => document.getElementById(id));
  const source = new EventSource(watched.dataset.watch);
  source.addEventListener("state", (event) => {
    const { state: found, has_run: hasRun } = JSON.parse(event.data);
    if (run && hasRun) run.hidden = false;
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

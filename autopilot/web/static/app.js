// Everything here adds to pages that are complete without it: what is live says so, and says when it is not.
"use strict";
const lost = document.getElementById("lost");
const silent = document.getElementById("silent");
const live = document.getElementById("live");
const DEAF_MS = 15000;
const AGAIN_MS = 1000;
const zone = document.documentElement.dataset.zone;
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: zone });
let heardAt = Date.now();

const hear = () => { heardAt = Date.now(); lost.hidden = true; };
const miss = () => {
  if (!lost.hidden || document.hidden) return;
  document.getElementById("lost-since").textContent = clock.format(new Date()) + " " + zone;
  lost.hidden = false;
};

// htmx asks again for a stream that ends. One that never began is asked for again here.
const askAgain = () => {
  miss();
  setTimeout(() => live.dispatchEvent(new Event("again")), AGAIN_MS);
};

if (live) {
  live.addEventListener("htmx:before:response", event => {
    const { status, headers } = event.detail.ctx.response;
    if (event.target !== live || (headers.get("Content-Type") || "").includes("text/event-stream")) return;
    event.preventDefault();  // an answer other than a stream does not replace the page's content
    if (status === 401) location.reload();
    else askAgain();
  });
  live.addEventListener("htmx:error", event => { if (event.target === live) askAgain(); });
  for (const name of ["htmx:sse:error", "htmx:sse:close"]) {
    document.addEventListener(name, event => {
      if (event.detail.status === 401) location.reload();
      if (event.detail.reason !== "removed") miss();
    });
  }
  document.addEventListener("htmx:sse:after:connection", hear);
  document.addEventListener("pulse", hear);
  document.addEventListener("ended", () => location.reload());
  document.addEventListener("state", event => {
    hear();
    const told = JSON.parse(event.detail.data).silent;
    if (silent.textContent !== told) silent.textContent = told;
    silent.hidden = told === "";
  });
  document.addEventListener("visibilitychange", () => { heardAt = Date.now(); });
  // A server that was stopped keeps its connection open and says nothing.
  setInterval(() => { if (!document.hidden && Date.now() - heardAt > DEAF_MS) miss(); }, 1000);
}

const log = document.getElementById("log");
if (log) {
  const toEnd = () => { log.scrollTop = log.scrollHeight; };
  let isAtEnd = true;
  toEnd();
  log.addEventListener("scroll", () => { isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40; });
  new MutationObserver(() => { if (isAtEnd) toEnd(); }).observe(log, { childList: true, subtree: true, characterData: true });
}

const file = document.getElementById("toml");
if (file && file.dataset.line) {
  // The cursor goes to the line that is wrong.
  const lines = file.value.split("\n"), wanted = Number(file.dataset.line);
  const start = lines.slice(0, wanted - 1).reduce((sum, line) => sum + line.length + 1, 0);
  file.focus();
  file.setSelectionRange(start, start + (lines[wanted - 1] || "").length);
  file.scrollTop = Math.max(0, (wanted - 5) * 20);
}

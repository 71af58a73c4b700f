// What every page does: keys, copying the command, and fetching the content again after a batch.
// Pages need none of it to work.
import { fit } from "/static/tables.js";
import { say } from "/static/words.js";

const keysDialog = document.getElementById("keys");
let leader = false;

const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

function rows() {
  return [...document.querySelectorAll("main tbody tr")];
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("chosen"));
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  all.forEach((row) => row.classList.toggle("chosen", row === next));
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a")?.focus({ preventScroll: true });
}

// On a phone the pages are a line that scrolls: the open one is in sight.
document.querySelector("header a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// The palette shows what the page "Go to" lists, and leads to the first of it with Enter.
const palette = document.getElementById("palette");
const places = palette?.querySelector("ul");
const paletteText = document.getElementById("palette-text");
let wanted = null;

// Whether the palette has the answer to what is typed now; until then it is empty, for Enter and arrows.
async function look() {
  const asked = wanted = new AbortController();
  places.replaceChildren();
  const address = new URL(palette.dataset.address, location.href);
  address.searchParams.set("q", paletteText.value);
  try {
    const answer = await fetch(address, { signal: asked.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.querySelector("#places");
    if (wanted === asked && found) places.replaceChildren(...found.children);
  } catch (error) {
    if (error.name !== "AbortError") places.textContent = say("silent");
  }
  return wanted === asked;
}

function openPalette() {
  if (palette.open) return;
  paletteText.value = "";
  palette.showModal();
  paletteText.focus();
  look();
}

paletteText?.addEventListener("input", () => {
  wanted?.abort();
  look();
});
palette?.addEventListener("keydown", async (event) => {
  const links = [...places.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter" && at < 0) {
    event.preventDefault();
    wanted?.abort();
    if (await look()) places.querySelector("a")?.click();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    (links[Math.min(next, links.length - 1)] ?? paletteText).focus();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-palette]") || !palette) return;
  event.preventDefault();
  openPalette();
});
document.addEventListener("keydown", (event) => {
  if (!palette || event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  openPalette();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (leader) {
    leader = false;
    const link = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === event.key);
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  const actions = {
    g: () => { leader = true; },
    t: () => document.getElementById("as-of")?.focus(),
    f: () => document.getElementById("find")?.focus(),
    "/": () => document.querySelector("main [data-filter]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    c: () => document.querySelector("[data-copy=command]")?.click(),
    "?": () => keysDialog?.showModal(),
  };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  button.textContent = say(await copied(source) ? "copied" : "selected");
  setTimeout(() => { button.textContent = say("copy"); }, 3000);
});

// A form that waits for the job says so, and is sent once.
document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-asks]");
  if (!form) return;
  const note = document.createElement("p");
  note.setAttribute("role", "status");
  note.className = "asked";
  note.textContent = say("asked");
  form.append(note);
  // after the browser has read which button it was
  setTimeout(() => form.querySelectorAll("button").forEach((one) => { one.disabled = true; }));
});
addEventListener("pageshow", (event) => {
  if (!event.persisted) return; // a page that a browser has kept shows the form again
  document.querySelectorAll("[data-asks] .asked").forEach((one) => one.remove());
  document.querySelectorAll("[data-asks] button").forEach((one) => { one.disabled = false; });
});

// Browsers have a clipboard only on HTTPS and localhost; elsewhere the selection is copied.
async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}

// A page that takes long is fetched again less often: a tenth of the time, and one fetch at a time.
const SHARE = 10;
const LONGEST_MS = 30_000;
const STALE_S = 300; // as streaming/console/verdict.py
let asked = -Infinity;
let answered = -Infinity;
let next = -Infinity;
let later = null;

function refresh() {
  const rest = next - performance.now();
  if (rest > 0) {
    later ??= setTimeout(() => { later = null; refresh(); }, rest);
    return;
  }
  asked = performance.now();
  next = asked + LONGEST_MS;
  document.body.dispatchEvent(new CustomEvent("batch"));
}

document.addEventListener("htmx:after:swap", () => {
  if (answered > asked || asked === -Infinity) return;
  answered = performance.now();
  next = asked + Math.min(SHARE * (answered - asked), LONGEST_MS);
  if (later === null) return;
  clearTimeout(later);
  later = null;
  refresh();
});

function lasting(age) {
  if (age >= 172_800) return say("days", { count: Math.floor(age / 86_400).toLocaleString(document.documentElement.lang) });
  if (age >= 7_200) return say("hours", { count: Math.floor(age / 3_600) });
  return say("minutes", { count: Math.floor(age / 60) });
}
const busy = () => document.activeElement?.closest("main form") || document.querySelector("main dialog[open]");

// The browser reconnects by itself and names the last batch that it has seen.
const status = document.getElementById("live");
if (document.querySelector("main[data-live]")) {
  const events = new EventSource("/events");
  let known = null;
  let committed = null; // when the last batch was, on this browser's clock
  let connected = false;
  const show = () => {
    const age = committed === null ? 0 : (Date.now() - committed) / 1000;
    const failing = document.querySelector("[data-failing]") !== null;
    const late = connected && (failing || age >= STALE_S);
    status.classList.toggle("on", connected && !late);
    status.classList.toggle("late", late);
    if (!connected) status.textContent = say("unconnected");
    else if (failing) status.textContent = say("failing");
    else if (known === null) status.textContent = say("live");
    else status.textContent = late ? say("late", { batch: known, age: lasting(age) }) : say("batch", { batch: known });
  };
  let looked = Date.now();
  setInterval(() => {
    show();
    // without a batch nothing else fetches the page again, which then says why there is none
    if (Date.now() - looked > 60_000 && !busy()) {
      looked = Date.now();
      refresh();
    }
  }, 10_000);
  events.addEventListener("open", () => {
    connected = true;
    show();
  });
  events.addEventListener("error", () => {
    connected = false;
    show();
  });
  events.addEventListener("batch", (event) => {
    const first = known === null;
    known = event.lastEventId;
    committed = Date.now() - JSON.parse(event.data).age_s * 1000;
    looked = Date.now();
    show();
    document.body.dataset.batch = known;
    if (!first && !busy()) refresh();
  });
}

// Curves and graphs load what they need only where they are.
async function draw() {
  if (document.querySelector("[data-curve]")) (await import("/static/curve.js")).draw();
  if (document.querySelector("[data-dot]")) (await import("/static/graph.js")).draw();
}
document.addEventListener("htmx:after:swap", draw);
fit();
draw();

// On a phone fields and sections are folded until somebody wants them. A new batch leaves them as
// they are, although the page that it brings has them open.
const unfolded = new Map();
const isPhone = matchMedia("(max-width: 45rem)").matches;
function fold() {
  for (const one of document.querySelectorAll("details.fold")) one.open = unfolded.get(one.id) ?? !isPhone;
}
document.addEventListener("click", (event) => {
  const one = event.target.closest("details.fold > summary")?.parentElement;
  if (one) unfolded.set(one.id, !one.open);
});
document.addEventListener("toggle", fit, true); // tables that were hidden have a width now
document.addEventListener("htmx:after:swap", fold);
fold();

// Draws graphs in Graphviz's language with Viz.js, WebAssembly and all; they zoom, pan and search.
import { instance } from "/static/vendor/viz.js";
import { say } from "/static/words.js";

const STEP = 1.25;
const CLICK_PX = 4;
// Units of the graph in a pixel: its letters are 12 units high.
const READABLE = 1.5;
const TOO_SMALL = 2;
const SMALLEST = 0.7;
let viz = null;

// What is seen of a graph is its viewBox: the part [x, y, width, height] of the whole.
function show(place, [x, y, width, height]) {
  place.seen = [x, y, width, height];
  place.querySelector("svg").setAttribute("viewBox", place.seen.join(" "));
}

// Shows all; a graph of few parts is not blown up.
function fit(place) {
  const [x, y, width, height] = place.whole;
  const box = place.getBoundingClientRect();
  const w = Math.max(width, box.width * SMALLEST);
  const h = Math.max(height, box.height * SMALLEST);
  show(place, [x + (width - w) / 2, y + (height - h) / 2, w, h]);
}

// What a picture begins with: all of it, or a part that can be read, around what the page is about.
function begin(place) {
  fit(place);
  if (unit(place) <= TOO_SMALL) return;
  const box = place.getBoundingClientRect();
  const [x, y, width, height] = place.whole;
  const [w, h] = [box.width * READABLE, box.height * READABLE];
  const named = place.dataset.around?.toLowerCase();
  const about = named && [...place.querySelectorAll(".node")].find((one) => one.textContent.toLowerCase().includes(named));
  show(place, [width < w ? x + (width - w) / 2 : x, height < h ? y + (height - h) / 2 : y, w, h]);
  if (about) centre(place, about);
}

function centre(place, node) {
  const at = node.getBBox();
  const [tx, ty] = place.shift;
  const [, , width, height] = place.seen;
  show(place, [at.x + at.width / 2 + tx - width / 2, at.y + at.height / 2 + ty - height / 2, width, height]);
}

function isSeen(place, part) {
  const box = place.getBoundingClientRect();
  const { x, y, width, height } = part.getBoundingClientRect();
  const [atX, atY] = [x + width / 2, y + height / 2];
  return atX > box.left && atX < box.right && atY > box.top && atY < box.bottom;
}

function zoom(place, factor, atX = 0.5, atY = 0.5) {
  const [x, y, width, height] = place.seen;
  const w = Math.min(Math.max(width / factor, 40), 4 * place.whole[2]);
  const h = height * (w / width);
  show(place, [x + (width - w) * atX, y + (height - h) * atY, w, h]);
}

function pan(place, right, down) {
  const [x, y, width, height] = place.seen;
  show(place, [x + right, y + down, width, height]);
}

// How many units of the graph a pixel is.
function unit(place) {
  const box = place.getBoundingClientRect();
  return Math.max(place.seen[2] / box.width, place.seen[3] / box.height);
}

function find(place, text) {
  const wanted = text.trim().toLowerCase();
  const nodes = [...place.querySelectorAll(".node")];
  const found = nodes.filter((one) => one.textContent.toLowerCase().includes(wanted));
  for (const one of place.querySelectorAll(".node, .edge")) {
    one.classList.toggle("dim", wanted !== "" && !found.includes(one));
  }
  if (!wanted || !found.length) return;
  centre(place, found[0]);
}

function listen(place) {
  let from = null;
  let dragged = false;
  place.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // else the page scrolls
    event.preventDefault();
    const box = place.getBoundingClientRect();
    const at = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    zoom(place, event.deltaY < 0 ? STEP : 1 / STEP, ...at);
  }, { passive: false });
  place.addEventListener("pointerdown", (event) => {
    from = [event.clientX, event.clientY];
    dragged = false;
  });
  place.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    const [right, down] = [from[0] - event.clientX, from[1] - event.clientY];
    if (!dragged && Math.hypot(right, down) < CLICK_PX) return;
    dragged = true;
    from = [event.clientX, event.clientY];
    pan(place, right * unit(place), down * unit(place));
  });
  for (const end of ["pointerup", "pointerleave", "pointercancel"]) {
    place.addEventListener(end, () => { from = null; });
  }
  place.addEventListener("focusin", (event) => {
    const part = event.target.closest(".node, .edge");
    if (part && !isSeen(place, part)) centre(place, part); // the Tab key went there
  });
  place.addEventListener("dragstart", (event) => event.preventDefault());
  place.addEventListener("click", (event) => {
    if (dragged) event.preventDefault();
  }, true);
  place.addEventListener("keydown", (event) => {
    const step = place.seen[2] / 10;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const zooms = { "+": STEP, "=": STEP, "-": 1 / STEP };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) pan(place, ...moves[event.key]);
    else if (zooms[event.key]) zoom(place, zooms[event.key]);
    else if (event.key === "0") fit(place);
    else return;
    event.preventDefault();
  });
  const box = place.closest(".graph-box");
  for (const button of box?.querySelectorAll("[data-graph]") ?? []) {
    const actions = { in: () => zoom(place, STEP), out: () => zoom(place, 1 / STEP), fit: () => fit(place) };
    button.addEventListener("click", () => actions[button.dataset.graph]());
  }
  const field = box?.querySelector("[data-graph-find]");
  field?.addEventListener("input", () => find(place, field.value));
}

// Says in words what a node or an edge is, and makes thin lines as easy to hit as thick ones.
function explain(svg) {
  for (const link of svg.querySelectorAll("a")) {
    const said = link.getAttribute("xlink:title") ?? link.getAttribute("title");
    if (!said) continue;
    const title = link.closest(".node, .edge")?.querySelector(":scope > title");
    if (title) title.textContent = said;
    if (link.querySelector("text")) continue; // that is its name
    link.setAttribute("role", "link");
    link.setAttribute("aria-label", said);
  }
  for (const edge of svg.querySelectorAll(".edge")) {
    const [line, label] = edge.querySelectorAll("a");
    label?.setAttribute("tabindex", "-1"); // it leads where the line leads
    const path = (line ?? edge).querySelector("path");
    if (!path) continue;
    const hit = path.cloneNode();
    hit.removeAttribute("style");
    hit.setAttribute("class", "hit");
    path.after(hit);
  }
}

export async function draw() {
  viz ??= await instance();
  for (const place of document.querySelectorAll("[data-dot]")) {
    if (place.drawn === place.dataset.dot) continue;
    const isNew = place.drawn === undefined;
    try {
      const svg = viz.renderSVGElement(place.dataset.dot);
      svg.removeAttribute("width");
      svg.removeAttribute("height");
      explain(svg);
      place.replaceChildren(svg);
      const { x, y, width, height } = svg.viewBox.baseVal;
      place.whole = [x, y, width, height];
      const moved = /translate\(([-\d.]+)[ ,]([-\d.]+)\)/.exec(svg.querySelector(".graph")?.getAttribute("transform") ?? "");
      place.shift = moved ? [Number(moved[1]), Number(moved[2])] : [0, 0];
      if (place.seen && !isNew) show(place, place.seen);
      else begin(place);
      if (isNew) listen(place);
    } catch (error) {
      place.textContent = say("undrawn", { fault: error.message });
    }
    place.drawn = place.dataset.dot;
    place.dataset.drawn = place.dataset.dot;
  }
}

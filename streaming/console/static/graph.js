// Draws a graph in Graphviz's language with Viz.js, WebAssembly and all.
import { instance } from "/static/vendor/viz.js";

let viz = null;

export async function draw() {
  viz ??= await instance();
  for (const place of document.querySelectorAll("[data-dot]")) {
    if (place.dataset.drawn === place.dataset.dot) continue;
    try {
      place.replaceChildren(viz.renderSVGElement(place.dataset.dot));
    } catch (error) {
      place.textContent = `The graph cannot be drawn: ${error.message}`;
    }
    place.dataset.drawn = place.dataset.dot;
  }
}

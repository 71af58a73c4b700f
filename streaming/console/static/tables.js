// Tables that are too wide: on a phone each row becomes a card, elsewhere they scroll sideways.
// Cards of a long list are a line each, with a button for the rest.
import { say } from "/static/words.js";

const phone = matchMedia("(max-width: 45rem)");
const isWide = (box) => box.scrollWidth > box.clientWidth + 1;
const roles = [["table", "table"], ["thead", "rowgroup"], ["tbody", "rowgroup"], ["tr", "row"], ["th", "columnheader"], ["td", "cell"]];

// What a card says beside each value is the head of its column.
function toCards(table) {
  const heads = [...table.querySelectorAll("thead th")].map((one) => one.innerText.replace(/\s+/g, " ").trim());
  for (const row of table.tBodies[0]?.rows ?? []) {
    let column = 0;
    for (const cell of row.querySelectorAll(":scope > :not(.unfold)")) {
      const isEmpty = !cell.textContent.trim() && !cell.querySelector("svg, button, input");
      cell.toggleAttribute("data-empty", isEmpty);
      if (column && cell.colSpan === 1) cell.dataset.label = heads[column] ?? "";
      column += cell.colSpan;
    }
  }
  table.classList.add("cards");
  if (table.tHead) table.tHead.hidden = !table.tHead.querySelector("a"); // it has links to sort by
  // rows that are no table rows for the browser stay so for a reader
  for (const [tag, role] of roles) {
    for (const one of [table, ...table.querySelectorAll(tag)]) if (one.matches(tag)) one.setAttribute("role", role);
  }
}

const MOST_OPEN = 10;
const opened = new Set();
const keyOf = (row) => row.querySelector("a")?.href ?? row.cells[0].textContent.trim();

function toLines(table) {
  const rows = [...(table.tBodies[0]?.rows ?? [])];
  if (!table.hasAttribute("data-fold") || rows.length <= MOST_OPEN) return;
  for (const row of rows) {
    let button = row.querySelector(".unfold button");
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      const name = row.cells[0].querySelector("a")?.textContent ?? row.cells[0].textContent.trim();
      button.setAttribute("aria-label", say("details", { name }));
      const cell = row.insertCell();
      cell.className = "unfold";
      cell.setAttribute("role", "cell");
      cell.append(button);
    }
    const isOpen = opened.has(keyOf(row));
    row.classList.toggle("folded", !isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
    button.textContent = isOpen ? "−" : "+";
  }
}

document.addEventListener("click", (event) => {
  const row = event.target.closest(".unfold button")?.closest("tr");
  if (!row) return;
  const key = keyOf(row);
  if (!opened.delete(key)) opened.add(key);
  toLines(row.closest("table"));
});

// A new batch makes the buttons anew: the one with the focus keeps it.
let focused = null;
document.addEventListener("htmx:before:swap", () => {
  const row = document.activeElement?.closest(".unfold")?.closest("tr");
  focused = row ? keyOf(row) : null;
});

function fitAgain() {
  fit();
  if (focused === null) return;
  const row = [...document.querySelectorAll("tr:has(.unfold)")].find((one) => keyOf(one) === focused);
  row?.querySelector(".unfold button").focus({ preventScroll: true });
  focused = null;
}

// Also makes a stop of the Tab key of what scrolls, and of nothing else.
export function fit() {
  for (const box of document.querySelectorAll(".scroll")) {
    const table = box.querySelector(":scope > table");
    table?.classList.remove("cards");
    if (table?.tHead) table.tHead.hidden = false;
    if (table && phone.matches && isWide(box)) {
      toCards(table);
      toLines(table);
    } else table?.querySelectorAll(".unfold").forEach((one) => { one.closest("tr").classList.remove("folded"); one.remove(); });
    if (isWide(box)) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

let waiting = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(fit);
});
document.addEventListener("htmx:after:swap", fitAgain);

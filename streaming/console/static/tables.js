// Tables that are too wide: on a phone each row becomes a card, elsewhere they scroll sideways.

const phone = matchMedia("(max-width: 45rem)");
const isWide = (box) => box.scrollWidth > box.clientWidth + 1;
const roles = [["table", "table"], ["thead", "rowgroup"], ["tbody", "rowgroup"], ["tr", "row"], ["th", "columnheader"], ["td", "cell"]];

// What a card says beside each value is the head of its column.
function toCards(table) {
  const heads = [...table.querySelectorAll("thead th")].map((one) => one.innerText.replace(/\s+/g, " ").trim());
  for (const row of table.tBodies[0]?.rows ?? []) {
    let column = 0;
    for (const cell of row.cells) {
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

// Also makes a stop of the Tab key of what scrolls, and of nothing else.
export function fit() {
  for (const box of document.querySelectorAll(".scroll")) {
    const table = box.querySelector(":scope > table");
    table?.classList.remove("cards");
    if (table?.tHead) table.tHead.hidden = false;
    if (table && phone.matches && isWide(box)) toCards(table);
    if (isWide(box)) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

let waiting = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(fit);
});
document.addEventListener("htmx:after:swap", fit);

"use strict";
// A click on a head sorts its table by that column, a second one the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => { const cell = row.cells[Math.min(column, row.cells.length - 1)]; return cell.dataset.value ?? cell.textContent; };
      const order = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b);
      body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
    });
  });
}

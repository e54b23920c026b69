// SPDX-License-Identifier: Apache-2.0
// Sorting and filtering of the table of decisions.
"use strict";
(() => {
  const table = document.getElementById("decision-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const text = document.getElementById("filter-text");
  const role = document.getElementById("filter-role");
  const decision = document.getElementById("filter-decision");
  const count = document.getElementById("filter-count");

  const fill = (select, column) => {
    const words = new Set(rows.map((row) => row.cells[column].textContent.trim()));
    for (const word of [...words].sort()) select.add(new Option(word, word));
  };
  fill(role, 1);
  fill(decision, 3);

  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      const fits =
        words.every((word) => content.includes(word)) &&
        (!role.value || row.cells[1].textContent.trim() === role.value) &&
        (!decision.value || row.cells[3].textContent.trim() === decision.value);
      row.hidden = !fits;
      if (fits) shown += 1;
    }
    count.textContent = shown === rows.length ? `${shown} storages` : `${shown} of ${rows.length}`;
  };
  for (const control of [text, role, decision]) control.addEventListener("input", filter);

  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (a, b) =>
    typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const numeric = header.classList.contains("number");
      const was = header.getAttribute("aria-sort");
      // Of sizes the largest are looked for first, of words the first.
      const down = was ? was === "ascending" : numeric;
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
    });
  });
  filter();
})();

// Names each cell of a table with more than two columns after its column, so that a phone can show rows as lists.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const columns = [...table.querySelectorAll("thead th")].map(cell => cell.textContent.trim())
  if (columns.length > 2 && columns.slice(1).every(name => name)) {
    table.dataset.wide = ""
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, at) => { cell.dataset.column = columns[at] })
  }
}

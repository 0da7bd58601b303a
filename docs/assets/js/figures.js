// Tables from docs/data: sorting, filtering and units. Everything is there and readable without it.
;(() => {
  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties)
    element.append(...children)
    return element
  }

  // As data/show.py writes numbers: converted values have at least four significant digits.
  const digits = value => value.toString().replace(/e.*/, "").replace(/[-.]/g, "").replace(/^0+|0+$/g, "").length || 1
  const shown = value => {
    if (value && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15)) return value.toString().replace("e+", "e")
    return value.toLocaleString("en-US", { maximumSignificantDigits: 12 })
  }
  const converted = (value, factor) =>
    factor === 1 ? value : Number((value * factor).toPrecision(Math.max(4, digits(value))))

  function key(cell) {
    const value = cell.querySelector(".figures-value")
    if (value?.dataset.value !== undefined) return Number(value.dataset.value)
    if (cell.classList.contains("figures-number")) return null
    return (value ?? cell).textContent.trim() || null
  }

  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true })

  function sortable(table, head, column) {
    const body = table.tBodies[0]
    const title = head.querySelector(".figures-title")
    const button = make("button", { type: "button", className: "figures-sort", textContent: title.textContent })
    title.replaceChildren(button)
    button.addEventListener("click", () => {
      const number = head.classList.contains("figures-number") // the largest first; a second click turns it round
      const first = number ? "descending" : "ascending"
      const now = head.getAttribute("aria-sort") !== first ? first : number ? "ascending" : "descending"
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort")
      head.setAttribute("aria-sort", now)
      const sign = now === "ascending" ? 1 : -1
      const rows = [...body.rows].map(row => [key(row.cells[column]), row])
      rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * compare(a, b)))
      body.append(...rows.map(([, row]) => row)) // what has no value stays last
    })
  }

  function filter(table) {
    const count = make("span", {})
    count.setAttribute("aria-live", "polite")
    const input = make("input", { type: "search", autocomplete: "off" })
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
      const rows = [...table.tBodies[0].rows]
      for (const row of rows) {
        const text = row.textContent.toLowerCase()
        row.hidden = !words.every(word => text.includes(word))
      }
      count.textContent = words.length ? `${rows.filter(row => !row.hidden).length} of ${rows.length}` : ""
    })
    return [make("label", {}, "Filter ", input), count]
  }

  // One choice for all columns that have the same units.
  function units(table) {
    const heads = [...table.tHead.rows[0].cells].filter(head => head.dataset.units)
    const groups = new Map()
    for (const head of heads) groups.set(head.dataset.units, [...(groups.get(head.dataset.units) ?? []), head])
    return [...groups].map(([offered, columns]) => {
      const factors = new Map(offered.split(";").map(pair => [pair.slice(0, pair.lastIndexOf(" ")), Number(pair.slice(pair.lastIndexOf(" ")))]))
      const select = make("select", {}, ...[...factors.keys()].map(unit => new Option(unit, unit)))
      select.addEventListener("change", () => columns.forEach(head => switchUnit(table, head, select.value, factors.get(select.value))))
      const names = columns.map(head => head.querySelector(".figures-title").textContent)
      select.setAttribute("aria-label", `Unit of ${names.join(", ")}`)
      return select
    })
  }

  function switchUnit(table, head, unit, factor) {
    head.querySelector(".figures-unit").textContent = unit
    for (const row of table.tBodies[0].rows)
      for (const value of row.cells[head.cellIndex].querySelectorAll("[data-value]:not([data-text])"))
        value.textContent = shown(converted(Number(value.dataset.value), factor))
  }

  function enhance(figures) {
    if (figures.querySelector(".figures-tools")) return
    const table = figures.querySelector(".figures-table")
    const tools = make("div", { className: "figures-tools" })
    const switches = units(table)
    if (table.tBodies[0].rows.length > 3) tools.append(...filter(table))
    if (switches.length) tools.append(make("span", {}, "Units ", ...switches))
    figures.prepend(tools)
    ;[...table.tHead.rows[0].cells].forEach((head, column) => sortable(table, head, column))
    for (const link of figures.querySelectorAll(".figures-refs a"))
      link.title = document.getElementById(link.hash.slice(1)).textContent
    figures.addEventListener("click", event => {
      // A note that is folded away opens when it is asked for.
      if (event.target.closest(".figures-refs a")) figures.querySelector("details").open = true
    })
  }

  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll(".figures-sources")) details.open = true
  })
  const all = () => document.querySelectorAll(".figures").forEach(enhance)
  typeof document$ === "undefined" ? addEventListener("DOMContentLoaded", all) : document$.subscribe(all)
})()

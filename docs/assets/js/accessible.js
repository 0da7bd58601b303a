// Names and focus that the theme leaves out; runs on each page, also after instant navigation.
function name(selector, label) {
  for (const element of document.querySelectorAll(selector)) element.setAttribute("aria-label", label)
}
document$.subscribe(() => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
    wrap.tabIndex = 0
    wrap.setAttribute("role", "group")
    wrap.setAttribute("aria-label", "Table, scrolls sideways")
  }
  for (const tabs of document.querySelectorAll(".tabbed-labels")) tabs.tabIndex = 0
  for (const code of document.querySelectorAll(".md-typeset pre > code")) code.tabIndex = 0
  for (const box of document.querySelectorAll(".task-list-item input[type=checkbox]"))
    box.setAttribute("aria-label", box.closest("li").textContent.trim().slice(0, 80))
  name("[data-md-component=search]", "Search")
  name(".md-nav--primary", "Book contents")
})

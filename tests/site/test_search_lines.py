"""Every error line of the symptoms page, typed into the search, leads to the section that explains it."""

import posixpath
import re
from pathlib import Path

SYMPTOMS = Path(__file__).parents[2] / "docs/reference/symptoms.md"
LEAST = 0.92  # 0.94 on 2026-11-30; the theme's own weights: 0.72
ASK = """async ([plain, lines]) => {
  const address = new URL(JSON.parse(document.getElementById("__config").textContent).search, document.baseURI)
  const index = await (await fetch("search/search_index.json")).json()
  const frame = document.body.appendChild(document.createElement("iframe"))
  const worker = new (plain ? frame.contentWindow.Worker : Worker)(address) // another window: not our postMessage
  if (plain) index.config.fields.title.boost = 1000
  const ask = message => new Promise(done => {
    worker.addEventListener("message", event => done(event.data), {once: true})
    worker.postMessage(message)
  })
  await ask({type: 0, data: {...index, options: {suggest: false}}})
  const found = []
  for (const line of lines) {
    const {data} = await ask({type: 2, data: line})
    found.push(data.items.map(page => page.map(section => section.location)))
  }
  frame.remove()
  worker.terminate()
  return found
}"""


def lines_and_sections() -> list[tuple[str, set[str]]]:
    """(line, sections) of the table's rows: what is quoted, and the locations that the row links to."""
    pairs = []
    for row in SYMPTOMS.read_text().splitlines():
        if not row.startswith("| ") or "](" not in row:
            continue
        seen, target = row.strip("| ").split(" | ", 1)
        links = re.findall(r"\]\(([^)#]+)\.md#([^)]+)\)", target)
        places = {posixpath.normpath(f"reference/{page}") + f"/#{anchor}" for page, anchor in links}
        places = {place.replace("/index/#", "/#") for place in places}
        pairs += [(line, places) for line in re.findall(r"`([^`]+)`", seen) if len(line) > 6]
    return pairs


def lost(found: list, pairs: list[tuple[str, set[str]]]) -> list[str]:
    """The lines for which none of the first three pages, the symptoms page left out, shows a section of theirs."""
    missed = []
    for (line, places), pages in zip(pairs, found):
        shown = [page for page in pages if not page[0].startswith("reference/symptoms/")][:3]
        if not places & {section for page in shown for section in page}:
            missed.append(line)
    return missed


def test_error_lines_lead_to_their_sections(served, browser):
    _, base = served
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(base)
    pairs = lines_and_sections()
    assert len(pairs) > 200
    lines = [line for line, _ in pairs]
    ours, theirs = (lost(page.evaluate(ASK, [plain, lines]), pairs) for plain in (False, True))
    context.close()
    print(f"of {len(lines)} lines {1 - len(ours) / len(lines):.1%} are found; by the theme alone {1 - len(theirs) / len(lines):.1%}")  # fmt: skip
    assert len(ours) < len(theirs)
    assert len(ours) / len(lines) <= 1 - LEAST, ours

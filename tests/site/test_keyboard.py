"""The site without a mouse."""

DESKTOP = {"width": 1280, "height": 900}
PAGE = "debugging/hung-job/"  # has tabs, tables, links, downloads and code

# A field shows its caret; everything else an outline, on itself or on the label that stands for it.
UNSEEN = """() => {
  const here = document.activeElement
  if (here === document.body || here.matches("input[type=text], select, textarea")) return ""
  const outlined = (e) => e && getComputedStyle(e).outlineStyle !== "none" && e.getClientRects().length
  const shown = [here, here.nextElementSibling, here.parentElement.querySelector(".tabbed-labels")]
  return shown.some(outlined) ? "" : here.outerHTML.slice(0, 200)
}"""


def test_first_tab_skips_to_the_article(served, open_page):
    _, base = served
    page = open_page(base + PAGE, base, viewport=DESKTOP).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"
    page.keyboard.press("Enter")
    page.wait_for_url("**#*")
    page.wait_for_timeout(300)  # instant navigation scrolls a little later
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('article') !== null")


def test_whatever_has_the_keyboard_is_seen(served, open_page):
    _, base = served
    page = open_page(base + PAGE, base, viewport=DESKTOP).page
    kinds = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        assert page.evaluate(UNSEEN) == ""
        kinds.add(page.evaluate("document.activeElement.tagName + (document.activeElement.type || '')"))
    assert {"A", "CODE", "INPUTradio", "INPUTtext"} <= kinds, "the page no longer has what this test is about"


def test_search_is_found_walked_and_left(served, open_page):
    _, base = served
    watched = open_page(base, base, viewport=DESKTOP)
    page = watched.page
    page.keyboard.press("/")
    page.keyboard.type("NCCL_DEBUG", delay=20)
    page.locator(".md-search-result__item a").first.wait_for()
    page.keyboard.press("ArrowDown")
    target = page.evaluate("document.activeElement.href")
    page.keyboard.press("Enter")
    page.wait_for_url(target.split("#")[0].split("?")[0] + "**")
    assert watched.errors == []

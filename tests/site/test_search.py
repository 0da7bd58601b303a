"""Questions as practitioners type them, and the section that must come up."""

from urllib.parse import urlsplit

import pytest

# query → sections that resolve it; one of them must be among the first three pages shown
QUERIES = {
    "sbatch multi-node torchrun": ["slurm/first-job-to-multi-node/#torchrun"],
    "invalid device ordinal": ["slurm/first-job-to-multi-node/#invalid-device-ordinal"],
    "Watchdog caught collective operation timeout": ["debugging/hung-job/#watchdog-timeout"],
    "py-spy permission denied": ["debugging/hung-job/#py-spy-permission-denied"],
    "failed finding central directory": ["storage/checkpoints/#central-directory"],
    "how often to checkpoint": ["storage/checkpoints/#interval"],
    "GLOO_SOCKET_IFNAME": ["network/collectives/#gloo-loopback"],
    "busbw algbw": ["network/collectives/#bus-bandwidth"],
    "pad vocabulary 50257 50304": ["compute/matmul-throughput/#vocab-padding"],
    "MFU HFU": ["compute/matmul-throughput/#mfu"],
    "6ND GPU hours": ["training/memory-and-time/#gpu-hours"],
    "16 bytes per parameter": ["training/memory-and-time/#bytes-per-parameter"],
}
SECTIONS = """() => [...document.querySelectorAll(".md-search-result__item")].slice(0, 3)
  .flatMap(page => [...page.querySelectorAll("a")].map(a => a.href))"""


def without_query(address: str) -> str:
    """`a/?h=word#b` → `a/#b`: the theme notes the words to be marked in the query."""
    parts = urlsplit(address)
    return parts.path + (f"#{parts.fragment}" if parts.fragment else "")


@pytest.fixture(scope="module")
def box(served, browser):
    _, base = served
    # waiting for an expression evaluates a string, which the page's own policy forbids
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.goto(base)
    page.locator(".md-search__input").click()
    page.wait_for_function("!document.querySelector('.md-search-result__meta').textContent.includes('Initializing')")
    yield page, base
    context.close()


@pytest.mark.parametrize("query", QUERIES)
def test_query_leads_to_its_section(box, query):
    page, base = box
    page.locator(".md-search__input").fill("")
    page.wait_for_function("document.querySelectorAll('.md-search-result__item').length == 0")
    page.locator(".md-search__input").press_sequentially(query, delay=5)
    page.wait_for_function("document.querySelectorAll('.md-search-result__item').length > 0")
    page.wait_for_timeout(400)
    found = [without_query(address.removeprefix(base)) for address in page.evaluate(SECTIONS)]
    assert set(QUERIES[query]) & set(found), f"found {found}"


def test_the_last_word_is_completed(box):
    page, _ = box
    page.locator(".md-search__input").fill("")
    page.locator(".md-search__input").press_sequentially("watchd", delay=20)
    page.wait_for_function("document.querySelector('.md-search__suggest').textContent.includes('watchdog')")


def test_words_searched_for_are_marked_on_the_page(box):
    page, _ = box
    page.locator(".md-search__input").fill("")
    page.locator(".md-search__input").press_sequentially("flight recorder", delay=5)
    page.wait_for_timeout(400)
    page.locator(".md-search-result__item a").first.click()
    page.wait_for_selector("article mark", state="attached")

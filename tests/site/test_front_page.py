"""The front page and the frame around every page."""

import re

DESKTOP = {"width": 1280, "height": 900}


def test_front_page_leads_to_every_part(served, open_page):
    _, base = served
    page = open_page(base, base, viewport=DESKTOP).page
    assert page.title() == "Machine Learning Engineering Open Book"
    for part in ("compute", "network", "storage", "slurm", "training", "debugging", "reference"):
        assert page.locator(f'article a[href$="/{part}/"], article a[href="{part}/"]').count(), part


def test_scheme_can_be_switched_and_is_remembered(served, open_page):
    _, base = served
    page = open_page(base, base, viewport=DESKTOP, color_scheme="light").page
    assert page.locator("body").get_attribute("data-md-color-scheme") == "default"
    page.locator('label[title="Switch to dark mode"]').click()
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"
    page.reload()
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"


def test_instant_navigation_keeps_the_page_loaded_and_its_repairs(served, open_page):
    _, base = served
    page = open_page(base, base, viewport=DESKTOP).page
    page.evaluate("window.stays = true")
    link = page.locator("article td a", has_text="Slurm").first
    link.scroll_into_view_if_needed()
    page.wait_for_timeout(1000)  # the address follows the scrolling with a delay; people take longer to click
    link.click()
    page.wait_for_url(base + "slurm/")
    page.wait_for_selector('.md-typeset__scrollwrap[aria-label="Table, scrolls sideways"]')
    assert page.evaluate("window.stays") is True


def test_a_chapter_has_edit_link_date_and_neighbours(served, open_page):
    _, base = served
    page = open_page(base + "slurm/", base, viewport=DESKTOP).page
    assert page.locator('a[rel="edit"]').get_attribute("href").endswith("edit/main/docs/slurm/index.md")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", page.locator(".md-source-file time").inner_text())
    assert page.locator(".md-footer__link--prev").count() == page.locator(".md-footer__link--next").count() == 1


def test_copy_button_copies_the_command(served, browser):
    _, base = served
    context = browser.new_context(viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(base + "contributing/")
    page.wait_for_selector("[data-clipboard-target]", state="attached")
    page.locator("[data-clipboard-target]").first.click(force=True)
    assert page.evaluate("navigator.clipboard.readText()").strip() == "python3 scripts/serve"
    context.close()


def test_unknown_address_shows_the_404_page_with_links_that_work(served, open_page):
    _, base = served
    page = open_page(base + "no/such/page/", base, viewport=DESKTOP).page
    link = page.locator(".md-tabs__link", has_text="Slurm")
    link.click()
    page.wait_for_url(base + "slurm/")

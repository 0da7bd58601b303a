"""The copy that opens from a disk, without a server."""

DESKTOP = {"width": 1280, "height": 900}


def test_opens_and_searches_from_a_file(offline, open_page):
    start = (offline / "index.html").as_uri()
    own = offline.as_uri()
    watched = open_page(start, own, viewport=DESKTOP)
    page = watched.page
    page.locator(".md-search__input").click()
    page.keyboard.type("NCCL_DEBUG", delay=20)
    first = page.locator(".md-search-result__item a").first
    first.wait_for(timeout=20_000)
    assert first.get_attribute("href").startswith((own, "."))
    first.click()
    page.wait_for_url("**/*.html*")
    assert page.locator("article h1").count() == 1
    assert watched.foreign == []
    assert watched.errors == []

import base64
import hashlib

import pytest

from openbook.findings import Misuse
from openbook.publish import policy_of, publish

PAGE = '<html><head><meta charset="utf-8"><script>var a=1</script><script src="x.js"></script></head></html>'


def test_policy_allows_inline_scripts_by_their_hash_only():
    digest = base64.b64encode(hashlib.sha256(b"var a=1").digest()).decode()
    policy = policy_of(PAGE)
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "unsafe-eval" not in policy


def test_every_inline_script_has_its_own_hash_as_it_is_written():
    html = '<script type="module">let a = 1</script><script>if (a &amp;&lt; 2 </b> 3) {}</script><script src="x.js">no</script>'
    policy = policy_of(html)
    for text in (b"let a = 1", b"if (a &amp;&lt; 2 </b> 3) {}"):
        assert base64.b64encode(hashlib.sha256(text).digest()).decode() in policy
    assert policy.count("sha256-") == 2


@pytest.mark.parametrize(
    "directive",
    ["default-src 'self'", "object-src 'none'", "base-uri 'self'", "form-action 'self'", "script-src 'self'"],
)
def test_policy_closes_every_door(directive):
    assert directive in policy_of("").split("; ")


def test_a_theme_that_writes_its_head_otherwise_is_told(tmp_path):
    (tmp_path / "index.html").write_text(PAGE.replace('"utf-8"', "utf-8"))
    with pytest.raises(Misuse, match="has the theme changed"):
        publish(tmp_path)


def test_data_in_a_script_element_needs_no_hash():
    assert "sha256" not in policy_of('<script type="application/json">{"a": 1}</script>')


def test_publishing_twice_changes_nothing_more(tmp_path):
    page = tmp_path / "index.html"
    page.write_text(PAGE)
    assert publish(tmp_path) == 1
    once = page.read_text()
    assert once.index("Content-Security-Policy") < once.index("<script")
    assert publish(tmp_path) == 0
    assert page.read_text() == once


def test_a_directory_without_a_site_is_misuse(tmp_path):
    with pytest.raises(Misuse, match="no HTML page"):
        publish(tmp_path)

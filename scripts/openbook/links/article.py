"""Where the article stands in a page, as opposed to what the theme puts around it."""

from openbook.findings import Misuse

try:
    from selectolax.lexbor import LexborHTMLParser, LexborNode
except ImportError as missing:
    raise Misuse("selectolax is missing: pip install selectolax==1.0.2") from missing

# Material, MkDocs' own themes, and any page that is marked up well.
_ARTICLES = ("article.md-content__inner", "[role=main]", "[itemprop=articleBody]", "main", "article", "body")


def article_of(tree: LexborHTMLParser) -> LexborNode | None:
    """The element that holds the article; the body of a page that marks none."""
    return next((node for query in _ARTICLES if (node := tree.css_first(query)) is not None), tree.root)

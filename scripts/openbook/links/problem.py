"""What is wrong at a place of the built site, before it is traced to the source."""

from dataclasses import dataclass

THEME = -1


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect of a built page (or of another file of the site).

    `url` is the address as the HTML has it, `target` where it leads inside the site (`path#fragment`).
    `nth` counts equal addresses in the article from 0, and is THEME outside of the article.
    `literal` is text to look for in the source when the defect is no link.
    """

    page: str
    rule: str
    message: str
    url: str = ""
    target: str = ""
    nth: int = 0
    severity: str = "error"
    literal: str = ""
    hint: str = ""

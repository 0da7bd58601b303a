"""What an answer means for the author of the link."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from openbook.links.external.content import FOUND, MISSING, Content, read
from openbook.links.external.fetch import Answer

OK = "ok"
MOVED = "moved"
SUSPICIOUS = "suspicious"
BLOCKED = "blocked"
LIMITED = "rate-limited"
TLS = "tls"
UNREACHABLE = "unreachable"
GONE = "gone"
REFUSED = "refused"
MALFORMED = "malformed"
ANCHOR_MISSING = "anchor-missing"
ANCHOR_UNVERIFIABLE = "anchor-unverifiable"

_WALLS = (401, 403, 407, 451, 999)
_PERMANENT = (301, 308)
_SEPARATOR = re.compile(r"\s+[|–—·•»:-]+\s+|:\s+|\s*[|•»]\s*")
_NOT_FOUND = re.compile(
    r"""(?:(?:oops|uh[\s-]oh|(?:we\s?['’]?re\s+)?sorry)[,.!:]*\s+)?
      (?: (?:http\s+)?(?:error\s*)?404(?:\s*error)?(?:[\s,.:-]*(?:page\s+)?not\s+found)?
        | (?:(?:the|this|that|your)\s+)?(?:requested\s+)?(?:(?:page|file|document|content|site|url|resource)\s+)?
          (?:(?:was|is|has|could|can)\s+)?(?:not|cannot|can['’]t|couldn['’]t|wasn['’]t)\s+(?:be\s+|been\s+)?found
        | (?:(?:the|this|that)\s+)?(?:page|document|content)\s+
          (?:does\s+not\s+exist|doesn['’]t\s+exist|no\s+longer\s+exists|is\s+(?:no\s+longer\s+available|gone|missing))
        | (?:we\s+)?(?:can['’]t|cannot|couldn['’]t|could\s+not)\s+find\s+(?:that|this|the)\s+page )[.!]*""",
    re.IGNORECASE | re.VERBOSE,
)
_CHALLENGE = re.compile(
    r"just a moment\b|attention required\b|checking your browser|security check(?:point)?\b|verify(?:ing)? (?:that )?"
    r"you(?:'re| are) (?:a )?human|human verification|are you (?:a )?(?:human|robot)|pardon our interruption"
    r"|client challenge|access denied|ddos-guard",
    re.IGNORECASE,
)
_ANUBIS = re.compile(
    rb"making sure you(?:'|&#39;|&#x27;|\xe2\x80\x99)re not a bot|id=[\"']?anubis_challenge", re.IGNORECASE
)
_HOME = re.compile(r"/?(?:[a-z]{2}(?:[-_][a-z]{2,4})?/?)?(?:index\.\w+|home/?|default\.\w+)?\Z", re.IGNORECASE)
_LOG_IN = re.compile(
    r"/(?:log[-_]?in|sign[-_]?in|sso|users/sign_in|wp-login\.php|oauth2?(?:/authorize)?)/?\Z", re.IGNORECASE
)
_SCRIPTED_HOSTS = ("github.com", "gitlab.com", "bitbucket.org", "huggingface.co")  # scripts put their anchors in


@dataclass(frozen=True)
class Verdict:
    """One of the words above, and a clause (without its subject) that explains it to a person.

    `final` is the address that answered; for MOVED the one to write. `certain`: the fault lies in the
    address itself, so that asking again changes nothing. `counts`: asking again may prove it bad.
    """

    kind: str
    detail: str = ""
    final: str = ""
    certain: bool = False
    counts: bool = False


def judge(answer: Answer, asked: str, fragment: str = "") -> Verdict:
    """The verdict on an address and its anchor (still encoded, empty for none)."""
    headers, status = answer.headers, answer.status
    if answer.error:
        return Verdict(answer.error, answer.detail, answer.url, answer.certain, not answer.chain_only)
    if wall := _wall(answer):
        return Verdict(BLOCKED, wall, answer.url)
    if status == 429:
        return Verdict(LIMITED, answer.detail or "answers 429 (too many requests)", answer.url)
    if status in (404, 410):
        return Verdict(GONE, _through(answer) + f"answers {status}", answer.url, counts=True)
    if not 200 <= status < 300:
        where = " without saying where to" if 300 <= status < 400 else ""
        return Verdict(UNREACHABLE, _through(answer) + f"answers {status}{where}", answer.url, counts=True)
    content = read(answer.body, headers.get("content-type", ""), answer.complete) if answer.body else Content()
    if doubt := _doubt(answer, asked, content):
        return Verdict(SUSPICIOUS, doubt, answer.url)
    if fragment and (doubt := _anchor(answer, fragment, content)):
        return doubt
    if new := moved_to(answer.hops):
        new += f"#{fragment}" if fragment and "#" not in new else ""
        return Verdict(MOVED, f"has moved for good to {new}", new)
    return Verdict(OK, "", answer.url)


def moved_to(hops: tuple[tuple[int, str], ...]) -> str:
    """Where the permanent redirects at the start lead; what comes after them is the site's own affair."""
    new = ""
    for status, url in hops:
        if status not in _PERMANENT:
            break
        new = url
    return new


def _through(answer: Answer) -> str:
    return f"leads to {answer.url[:200]}, which " if answer.hops else ""


def _wall(answer: Answer) -> str:
    headers, status = answer.headers, answer.status
    if "cf-mitigated" in headers or "challenge" in (
        headers.get("x-vercel-mitigated", ""),
        headers.get("x-amzn-waf-action", ""),
    ):
        return f"answers {status} with a challenge for browsers"
    if status in _WALLS:
        return f"answers {status} to programs: look at it with a browser"
    if _ANUBIS.search(answer.body[:65536]):
        return f"answers {status} with a challenge for browsers (Anubis)"
    if status == 503 and answer.body and _CHALLENGE.search(read(answer.body).title):
        return "answers 503 with a challenge for browsers"
    if answer.hops and _LOG_IN.search(urlsplit(answer.url).path):
        return f"leads to a log-in page, {answer.url[:200]}"
    return ""


def _doubt(answer: Answer, asked: str, content: Content) -> str:
    """Why a good answer may not be the page that the author meant."""
    old, new = urlsplit(asked), urlsplit(answer.url)
    about_it = re.search(r"404|not.?found", old.path, re.IGNORECASE)
    for said in dict.fromkeys((content.title, content.heading)):
        if _CHALLENGE.match(said):
            return f"answers {answer.status}, but its title is {said[:80]!r}: a challenge, not the page"
        if not about_it and says_not_found(said):
            return f"answers {answer.status}, but its title is {said[:80]!r}"
    if answer.hops and _HOME.match(new.path) and not new.query and not (_HOME.match(old.path) and not old.query):
        return f"leads to the start page {answer.url[:200]}: the page itself is probably gone"
    return ""


def says_not_found(title: str) -> bool:
    """Whether a title, or one of its parts between separators, says that there is no such page and nothing else."""
    parts = [title, *_SEPARATOR.split(title)]
    return any(_NOT_FOUND.fullmatch(part.strip()) for part in parts if 3 <= len(part.strip()) <= 80)


def _anchor(answer: Answer, fragment: str, content: Content) -> Verdict | None:
    found = content.anchor(fragment) if answer.body else ""
    if found == FOUND:
        return None
    host = urlsplit(answer.url).hostname or ""
    by_script = host in _SCRIPTED_HOSTS or host.endswith(tuple("." + name for name in _SCRIPTED_HOSTS))
    if found == MISSING and not by_script:
        return Verdict(ANCHOR_MISSING, f'is there, but has no "#{fragment[:100]}"', answer.url)
    reason = "scripts make the anchors of that page" if answer.body and answer.complete else "not all of it was read"
    if "html" not in answer.headers.get("content-type", "html"):
        reason = "it is no HTML page"
    return Verdict(
        ANCHOR_UNVERIFIABLE, f'is there; whether it has "#{fragment[:100]}" cannot be told: {reason}', answer.url
    )

"""What an answer from another site means, and when it is a reason to fail.

Answers of the open web come and go, so one bad answer proves little: an address is an error when it failed in
several runs over several days, and before that it is only mentioned.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from openbook.findings import Misuse

FAILING_RUNS, FAILING_DAYS = 3, 7
KEEP_DAYS = 7  # a good answer is not asked for again within this time, give or take two days

OK = "ok"
MOVED = "moved"
SUSPICIOUS = "suspicious"
BLOCKED = "blocked"
LIMITED = "rate-limited"
TLS = "tls"
UNREACHABLE = "unreachable"
GONE = "gone"
REFUSED = "refused"
NO_ANCHOR = "anchor-missing"
BAD = (GONE, UNREACHABLE, REFUSED, NO_ANCHOR)

_GONE_TITLE = re.compile(
    r"\b(?:404|not found|page (?:does not|doesn't) exist|no longer (?:available|exists))\b", re.IGNORECASE
)
_CHALLENGE = re.compile(
    r"just a moment|making sure you're not a bot|attention required|checking your browser", re.IGNORECASE
)
_HEAD = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_APPLICATION = re.compile(r"""\bid=["']?(?:root|app|__next|__nuxt)["'\s>]""")
_ID = re.compile(r"""\s(?:id|name)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_LINES = re.compile(r"L\d+(?:C\d+)?(?:-L\d+(?:C\d+)?)?$")
_SCRIPTED_HOSTS = ("github.com", "gitlab.com", "bitbucket.org")  # anchors made by scripts


@dataclass(frozen=True)
class Answer:
    """What was heard: the last status (0 without an answer), the addresses passed, headers and the body's start."""

    status: int
    url: str
    hops: tuple[tuple[int, str], ...] = ()
    headers: Mapping[str, str] | None = None
    text: str = ""
    error: str = ""  # "", "tls", "refused", "unreachable"
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    """One of the words above, a clause that explains it, and the address that answered in the end."""

    kind: str
    detail: str = ""
    final: str = ""


def judge(url: str, answer: Answer) -> Verdict:
    """What the answer says about the address, its anchor left aside."""
    if answer.error:
        kinds = {"tls": TLS, "refused": REFUSED}
        return Verdict(kinds.get(answer.error, UNREACHABLE), answer.detail)
    headers = {name.lower(): value for name, value in (answer.headers or {}).items()}
    status, final = answer.status, answer.url
    if headers.get("cf-mitigated") or status in (401, 403, 407, 451, 999):
        return Verdict(BLOCKED, f"answers {status} to programs; a browser may see it", final)
    if status == 429:
        return Verdict(LIMITED, "answers 429 however long one waits", final)
    if status in (404, 410):
        return Verdict(GONE, f"answers {status}", final)
    if status >= 400 or 300 <= status < 400:
        return Verdict(UNREACHABLE, f"answers {status}", final)
    heads = " ".join(re.sub(r"<[^>]*>", "", match[2]) for match in _HEAD.finditer(answer.text[:200_000]))
    if _CHALLENGE.search(heads):
        return Verdict(BLOCKED, "shows a challenge instead of the page", final)
    if _GONE_TITLE.search(heads):
        return Verdict(SUSPICIOUS, f"answers 200, but its title says {heads.strip()[:60]!r}", final)
    if answer.hops and urlsplit(final).path in ("", "/") and urlsplit(url).path not in ("", "/"):
        return Verdict(SUSPICIOUS, f"leads to the start page {final}", final)
    if answer.hops and all(code in (301, 308) for code, _ in answer.hops):
        return Verdict(MOVED, f"has moved to {final}", final)
    return Verdict(OK, "", final)


def wants_anchor(url: str) -> str:
    """The anchor that can be looked up in the page; none for lines of code and hosts that make theirs by script."""
    parts = urlsplit(url)
    fragment = parts.fragment.split(":~:", 1)[0]
    host = parts.hostname or ""
    if not fragment or _LINES.match(fragment) or host.endswith(_SCRIPTED_HOSTS) or parts.path.endswith(".pdf"):
        return ""
    return "" if fragment.startswith(("!", "/", "page=")) else fragment


def anchor_verdict(anchor: str, answer: Answer, complete: bool) -> Verdict:
    """Whether the page has the anchor. A page cut off or built by a script cannot tell: that is OK."""
    from html import unescape
    from urllib.parse import unquote

    ids = {unescape(one or two or three) for one, two, three in _ID.findall(answer.text)}
    wanted = {anchor, unquote(anchor)}
    if wanted & ids or {f"user-content-{name}" for name in wanted} & ids:
        return Verdict(OK, "", answer.url)
    if (
        not complete
        or _APPLICATION.search(answer.text)
        or "html" not in (answer.headers or {}).get("content-type", "html")
    ):
        return Verdict(OK, "the anchor cannot be looked up", answer.url)
    return Verdict(NO_ANCHOR, f'has no "#{unquote(anchor)}"', answer.url)


@dataclass(frozen=True)
class Memory:
    """What earlier runs found for one address. Days as YYYY-MM-DD."""

    last_ok: str = ""
    first_bad: str = ""
    bad_runs: int = 0
    final: str = ""

    def after(self, verdict: Verdict, today: date) -> "Memory":
        """The memory with one more run. Only what is surely good ends a row of failures."""
        if verdict.kind in BAD:
            first = self.first_bad or today.isoformat()
            return replace(self, first_bad=first, bad_runs=self.bad_runs + 1)
        if verdict.kind in (OK, MOVED, SUSPICIOUS):
            return Memory(last_ok=today.isoformat(), final=verdict.final)
        return self

    def proved_bad(self, today: date) -> bool:
        if not self.first_bad or self.bad_runs < FAILING_RUNS:
            return False
        return today - date.fromisoformat(self.first_bad) >= timedelta(days=FAILING_DAYS)

    def fresh(self, url: str, today: date) -> bool:
        """Whether a good answer is recent enough; the limit differs by address, so that not all expire at once."""
        if not self.last_ok or self.first_bad:
            return False
        limit = KEEP_DAYS + sum(url.encode()) % 5 - 2
        return today - date.fromisoformat(self.last_ok) < timedelta(days=limit)


def remembered(file: Path) -> dict[str, Memory]:
    """The memories of earlier runs; none when the file does not exist."""
    try:
        return {url: Memory(**fields) for url, fields in json.loads(file.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as problem:
        raise Misuse(f"{file} cannot be read: {problem}; delete it to start afresh") from problem


def remember(file: Path, memories: Mapping[str, Memory]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({url: asdict(memories[url]) for url in sorted(memories)}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Exemption:
    """Addresses that are not asked for: a pattern with `*`, why, and until when."""

    pattern: str
    reason: str
    expires: date
    line: int

    def covers(self, url: str) -> bool:
        return fnmatchcase(url, self.pattern)


def exemptions(file: Path) -> list[Exemption]:
    """Read `[[ignore]]` tables with pattern, reason and expires (a date). All three are required."""
    try:
        text = file.read_text(encoding="utf-8")
        tables = tomllib.loads(text).get("ignore", [])
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as problem:
        raise Misuse(f"{file} cannot be read: {problem}") from problem
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() == "[[ignore]]"]
    entries = []
    for table, line in zip(tables, lines):
        if set(table) != {"pattern", "reason", "expires"} or not isinstance(table["expires"], date):
            raise Misuse(f"{file}:{line}: an entry has a pattern, a reason and expires = YYYY-MM-DD")
        entries.append(Exemption(table["pattern"], table["reason"], table["expires"], line))
    return entries

"""External links: ask for each once, judge by policy and memory, report at every place that uses it."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

from openbook.findings import Finding
from openbook.links.check import Result, external_links
from openbook.links.external_fetch import Fetcher
from openbook.links.external_policy import (
    BAD,
    BLOCKED,
    GONE,
    LIMITED,
    MOVED,
    NO_ANCHOR,
    OK,
    SUSPICIOUS,
    TLS,
    Answer,
    Exemption,
    Memory,
    Verdict,
    anchor_verdict,
    judge,
    wants_anchor,
)
from openbook.links.page import Link
from openbook.links.problem import Problem

_RESERVED = re.compile(r"(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid|localhost)$|^127\.|^\[?::1")
_UNPINNED = re.compile(r"https?://github\.com/[^/]+/[^/]+/blob/(?:main|master|HEAD)/[^#]*#L\d")


def _reserved(url: str) -> bool:
    """Names that stand for no real host (RFC 2606, RFC 6761)."""
    host = urlsplit(url).hostname or ""
    return bool(_RESERVED.search(host))


@dataclass
class Visit:
    """One run over the external addresses of a site. `new_only` skips addresses that an earlier run knows."""

    fetcher: Fetcher
    memories: dict[str, Memory]
    exempt: list[Exemption] = field(default_factory=list)
    new_only: bool = False
    today: date = field(default_factory=date.today)
    skip: Callable[[str], bool] = _reserved
    left: list[str] = field(default_factory=list)

    def problems(self, result: Result) -> Iterator[Problem]:
        """The problems of all external links; updates the memories."""
        links = {_whole(url): uses for url, uses in external_links(result).items()}
        yield from _unpinned(links)
        wanted = [url for url in links if self._wanted(url)]
        answers: dict[str, Answer] = {}
        self.left = self.fetcher.all(wanted, answers.__setitem__)
        for url in wanted:
            answer = answers.get(urldefrag(url)[0])
            if answer is None:
                continue
            verdict = self._verdict(url, answer)
            known = url in self.memories
            memory = self.memories[url] = self.memories.get(url, Memory()).after(verdict, self.today)
            severity = self._severity(verdict, memory, known)
            if severity:
                yield from _problems(url, links[url], verdict, severity)
        for url in set(self.memories) - set(links):
            del self.memories[url]

    def _wanted(self, url: str) -> bool:
        if self.skip(url) or any(each.covers(url) for each in self.exempt):
            return False
        if self.new_only:
            return url not in self.memories
        return not self.memories.get(url, Memory()).fresh(url, self.today)

    def _verdict(self, url: str, answer: Answer) -> Verdict:
        verdict = judge(urldefrag(url)[0], answer)
        anchor = wants_anchor(url)
        if anchor and verdict.kind in (OK, MOVED):
            found = anchor_verdict(anchor, answer, len(answer.text) < self.fetcher.size // 2)
            return found if found.kind == NO_ANCHOR else verdict
        return verdict

    def _severity(self, verdict: Verdict, memory: Memory, known: bool) -> str:
        """An error when it is proved, or when a new address is plainly wrong; else a notice, which fails nothing."""
        if verdict.kind in BAD:
            if self.new_only and not known and verdict.kind == GONE:
                return "error"
            return "error" if memory.proved_bad(self.today) else "notice"
        return "notice" if verdict.kind in (MOVED, SUSPICIOUS, BLOCKED, LIMITED, TLS) else ""


def expired(exempt: Iterable[Exemption], file: Path, today: date) -> Iterator[Finding]:
    """Exemptions end: someone looks again whether they are needed."""
    for each in exempt:
        if each.expires < today:
            message = f"the exemption of {each.pattern} ended on {each.expires}: {each.reason}"
            yield Finding(str(file), each.line, 0, "expired-exemption", "error", message, target=each.pattern)


def _whole(url: str) -> str:
    return "https:" + url if url.startswith("//") else url


def _unpinned(links: dict[str, list[tuple[str, Link]]]) -> Iterator[Problem]:
    for url, uses in links.items():
        if _UNPINNED.match(url):
            for page, link in uses:
                message = "line numbers of a branch move: link a commit or a tag instead"
                yield Problem(page, "unpinned-lines", message, link.url, url, link.nth, "warning")


def _problems(url: str, uses: list[tuple[str, Link]], verdict: Verdict, severity: str) -> Iterator[Problem]:
    hint = (
        f"an archived copy may exist: https://web.archive.org/web/{url}" if verdict.kind in (GONE, SUSPICIOUS) else ""
    )
    for page, link in uses:
        rule, message = f"external-{verdict.kind}", f"{url[:200]} {verdict.detail}"
        yield Problem(page, rule, message, link.url, url, link.nth, severity, hint=hint)

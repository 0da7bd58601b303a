"""One run over the other sites that a book links to: who is asked, what is remembered, what is reported."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from openbook.findings import Finding, Misuse
from openbook.links.check import merged
from openbook.links.external import verdict as kinds
from openbook.links.external.addresses import Address
from openbook.links.external.fetch import Answer, Fetcher
from openbook.links.external.ignore import Ignore
from openbook.links.external.pace import in_groups
from openbook.links.external.progress import Progress
from openbook.links.external.since import NewLines
from openbook.links.external.state import Record, State
from openbook.links.external.target import Target
from openbook.links.external.verdict import Verdict, judge
from openbook.links.problem import Problem

Trace = Callable[[Problem], tuple[str, int, int, str] | None]

OFFLINE_FROM = 3  # hosts; when so many were tried and not one answered, it is this machine
_NOTICES = (kinds.BLOCKED, kinds.LIMITED, kinds.ANCHOR_UNVERIFIABLE)
_ARCHIVED = (kinds.GONE, kinds.UNREACHABLE, kinds.SUSPICIOUS, kinds.TLS)


@dataclass
class Outcome:
    """What a run brought. `left` are the addresses for which there was no time."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    known: int = 0
    ignored: int = 0
    left: list[str] = field(default_factory=list)
    interrupted: bool = False

    def summary(self) -> str:
        asked = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items())) or "none"
        rest = f"; {self.known} known to be good, {self.ignored} ignored"
        late = f"; interrupted before {len(self.left)} more" if self.interrupted else ""
        if self.left and not self.interrupted:
            late = f"; no time for {len(self.left)} more, the next run asks for them"
        return f"addresses of other sites asked for: {asked}{rest}{late}"


class Visit:
    """`since` is given when only new lines may fail. `trace` finds the source of a problem."""

    def __init__(self, fetcher: Fetcher, state: State, ignore: Ignore, trace: Trace, since: NewLines | None = None):
        self.fetcher, self.state, self.ignore, self.trace, self.since = fetcher, state, ignore, trace, since
        self._waiting: dict[str, Verdict] = {}
        self._answered = False

    def run(self, addresses: dict[str, Address]) -> Outcome:
        """Ask for what is not ignored and not known to be good. Ctrl-C ends it early, with what was learnt."""
        outcome = Outcome()
        wanted: dict[str, list[Address]] = {}  # by what is asked for: several anchors share one request
        verdicts: dict[str, Verdict] = {}
        for url, address in addresses.items():
            if self.ignore.covers(url):
                outcome.ignored += 1
            elif address.target is None:
                verdicts[url] = Verdict(kinds.MALFORMED, address.malformed, certain=True)
            elif self.state[url].is_fresh(url, self.state.now()):
                outcome.known += 1
            else:
                wanted.setdefault(address.target.url, []).append(address)

        def ask(target: Target) -> Answer:
            return self.fetcher.get(target, anchors=any(each.fragment for each in wanted[target.url]))

        progress = Progress(len(wanted))
        try:
            with _terminated_as_interrupted():
                for target, answer in in_groups(self._groups(wanted), ask, self.fetcher.pace):
                    heard = {each.url: judge(answer, target.url, each.fragment) for each in wanted[target.url]}
                    self._learn(heard, answer)
                    verdicts |= heard
                    progress.step(target.url, answer.status == 200)
        except KeyboardInterrupt:
            outcome.interrupted = True
        finally:
            self.fetcher.pace.stop()
            progress.end()
            self.state.save()
        if not outcome.interrupted:
            self._judge_silence()
        outcome.counts.update(verdict.kind for verdict in verdicts.values())
        outcome.left = [each.url for group in wanted.values() for each in group if each.url not in verdicts]
        outcome.findings = [*self._findings(addresses, verdicts), *self._entries()]
        return outcome

    def _groups(self, wanted: dict[str, list[Address]]) -> list[list[Target]]:
        """Targets by host; what is new comes first, then the hosts with most to ask."""
        hosts: dict[str, list[tuple[bool, Target]]] = {}
        for group in wanted.values():
            target = group[0].target
            hosts.setdefault(target.host, []).append((not any(map(self._is_new, group)), target))
        ordered = sorted(hosts.values(), key=lambda each: (min(old for old, _ in each), -len(each)))
        return [[target for _, target in sorted(each, key=lambda pair: pair[0])] for each in ordered]

    def _learn(self, heard: dict[str, Verdict], answer: Answer) -> None:
        """Remember the verdicts. Failures wait until some site has answered: this machine may be offline."""
        self._waiting |= heard
        self._answered |= answer.status > 0 or answer.error == kinds.TLS
        if self._answered:
            self._note()

    def _note(self) -> None:
        for url, verdict in self._waiting.items():
            self.state.note(url, verdict)
        self._waiting.clear()

    def _judge_silence(self) -> None:
        """Failures that no answer of any site went with: this machine's when there are many, else theirs."""
        hosts = {urlsplit(url).hostname for url in self._waiting}
        if len(hosts) >= OFFLINE_FROM:
            some = ", ".join(sorted(hosts)[:3])
            raise Misuse(
                f"none of {len(hosts)} hosts answered ({some}…): is this machine online? Nothing is remembered"
            )
        self._note()
        self.state.save()

    def _findings(self, addresses: dict[str, Address], verdicts: dict[str, Verdict]) -> Iterator[Finding]:
        problems = []
        for url, verdict in verdicts.items():
            if verdict.kind != kinds.OK:
                rule, message = f"external-{verdict.kind}", f"{url[:200]} {verdict.detail}"
                hint = _hint(url, verdict, self.state[url])
                problems += _problems(addresses[url], rule, message, hint, self._severity(verdict, self.state[url]))
        for address in addresses.values():
            if address.unpinned:
                message = "line numbers of a branch move: the link will show other lines"
                hint = "on the page of the file press y, and link the address of the commit that then stands there"
                problems += _problems(address, "unpinned-lines", message, hint, "warning")
        for problem in dict.fromkeys(merged(problems)):
            if finding := self._finding(problem, addresses, verdicts):
                yield finding

    def _severity(self, verdict: Verdict, record: Record) -> str:
        """An error when it is proved; a warning when a person should look; a notice when nobody can tell."""
        if verdict.kind in _NOTICES:
            return "notice"
        return "error" if verdict.certain or (verdict.counts and record.proved_bad()) else "warning"

    def _finding(self, problem: Problem, addresses: dict[str, Address], verdicts: dict[str, Verdict]) -> Finding | None:
        place = self.trace(problem)
        if place is None:
            return None
        path, line, column, remark = place
        severity = problem.severity
        if self.since is not None and severity != "notice":
            verdict = verdicts.get(problem.target)
            new = self.since.has(path, line, problem.url)
            wrong = verdict is not None and (verdict.certain or verdict.kind == kinds.GONE)
            severity = "error" if new and wrong else "warning"
        hint = "; ".join(part for part in (problem.hint, remark) if part)
        return Finding(path, line, column, problem.rule, severity, problem.message, hint, problem.url)

    def _is_new(self, address: Address) -> bool:
        if self.since is None:
            return False
        problems = _problems(address, "", "", "", "notice")
        places = ((self.trace(problem), problem.url) for problem in problems)
        return any(self.since.has(place[0], place[1], url) for place, url in places if place)

    def _entries(self) -> Iterator[Finding]:
        for finding in self.ignore.findings():
            old = self.since is not None and not self.since.has(finding.path, finding.line, finding.target)
            yield replace(finding, severity="warning") if old else finding


def _problems(address: Address, rule: str, message: str, hint: str, severity: str) -> list[Problem]:
    return [
        Problem(page, rule, message, link.url, address.url, link.nth, severity, hint=hint)
        for page, link in address.uses
    ]


def _hint(url: str, verdict: Verdict, record: Record) -> str:
    parts = []
    if verdict.kind == kinds.MOVED:
        parts.append(f"write {verdict.final}")
    if verdict.counts and record.count and not verdict.certain:
        last = f", last seen good on {record.last_ok[:10]}" if record.last_ok else ""
        runs = "one run" if record.count == 1 else f"{record.count} runs"
        parts.append(f"failed in {runs} since {record.first_bad[:10]}{last}")
    if verdict.kind in _ARCHIVED:
        parts.append(f"an archived copy may exist: https://web.archive.org/web/{url.partition('#')[0]}")
    return "; ".join(parts)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM, which ends a cancelled job, as Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

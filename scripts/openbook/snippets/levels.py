"""How far the fences of each part are checked, and the count of skips that may only fall."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from openbook import ROOT
from openbook.findings import Finding, Misuse
from openbook.snippets.collect import PageItems

COLUMNS = ("run", "lint", "compile", "gpu", "parse", "shown", "own", "skip")
BASELINE = ROOT / "tests" / "content" / "skips.txt"


def table(pages: Iterable[PageItems], docs: Path) -> str:
    """Text, one line a part: how many fences stand at which level."""
    parts: dict[str, Counter[str]] = {}
    for page in pages:
        path = Path(page.path).resolve()
        inside = path.relative_to(docs).parts if path.is_relative_to(docs) else ()
        part = inside[0] if len(inside) > 1 else "(top)" if inside else "(elsewhere)"
        parts.setdefault(part, Counter()).update(item.level for item in page.items)
    parts = {part: counts for part, counts in sorted(parts.items()) if counts}
    rows = list(parts.items())
    rows.append(("all", sum(parts.values(), Counter())))
    used = [level for level in COLUMNS if rows[-1][1][level]]
    width = max(len(part) for part, _ in rows)
    lines = [" ".join([f"{'fences':{width}}  total", *(f"{level:>7}" for level in used)])]
    for part, counts in rows:
        lines.append(" ".join([f"{part:{width}}  {counts.total():5}", *(f"{counts[level]:7}" for level in used)]))
    return "\n".join(lines)


def skips(pages: Iterable[PageItems]) -> dict[str, int]:
    """Pages with skipped fences, by their path from the root of the repository."""
    counts = {page.path: sum(item.level == "skip" for item in page.items) for page in pages}
    return {str(Path(path).resolve().relative_to(ROOT)): count for path, count in counts.items() if count}


def allowed(baseline: Path = BASELINE) -> dict[str, int]:
    """The baseline: a line `COUNT PATH` a page; # begins a comment."""
    found = {}
    for number, line in enumerate(baseline.read_text(encoding="utf-8").split("\n"), 1):
        words = line.split("#")[0].split()
        if words and not (len(words) == 2 and words[0].isdecimal()):
            raise Misuse(f"{baseline}:{number}: expected a count and a path")
        if words:
            found[words[1]] = int(words[0])
    return found


def compare(counts: dict[str, int], baseline: dict[str, int], name: str = "tests/content/skips.txt") -> list[Finding]:
    """More skips than the baseline allows is an error; fewer means that the baseline must follow."""
    findings = []
    for path in sorted(counts.keys() | baseline.keys()):
        now, before = counts.get(path, 0), baseline.get(path, 0)
        if now > before:
            message = f"{now} fences with check=skip, {before} allowed: check one, or raise the count in review"
            findings.append(Finding(path, 0, 0, "more-skips", "error", message, f"the counts are in {name}"))
        elif now < before:
            message = f"{before} skips allowed on {path}, {now} left: lower the count"
            findings.append(Finding(name, 0, 0, "fewer-skips", "error", message))
    return findings

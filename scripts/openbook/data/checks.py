"""Everything that is checked in a topic file beyond its form: identities, plausibility, age, use of sources."""

import datetime
from collections.abc import Iterator

from openbook.data.identities import check_derived, check_identities
from openbook.data.load import Data
from openbook.data.model import Topic
from openbook.data.problem import Problem
from openbook.findings import Finding


def check_topic(topic: Topic, today: datetime.date) -> Iterator[Problem]:
    yield from check_identities(topic)
    yield from check_derived(topic)
    yield from _implausible(topic)
    yield from _dates(topic, today)
    yield from _unused(topic)


def _implausible(topic: Topic) -> Iterator[Problem]:
    for record, figure in topic.all_figures():
        value, limits = figure.in_unit(), figure.column.range
        if not isinstance(value, (int, float)):
            continue
        what, unit = f"{record.id}.{figure.column.name}", figure.column.unit
        if limits and not limits[0] <= value <= limits[1]:
            message = f"{what} is {value:g} {unit}, outside {limits[0]:g} to {limits[1]:g}"
            hint = f"wrong unit, or per node instead of per {record.per or 'chip'}? The range stands at the column"
            yield Problem(figure.line, "implausible", message, hint)
        elif value < 0 and figure.column.unit not in ("°C", "1"):
            yield Problem(figure.line, "implausible", f"{what} is {value:g} {unit}: below zero")


def _dates(topic: Topic, today: datetime.date) -> Iterator[Problem]:
    uses: dict[str, int] = {}
    for _, figure in topic.all_figures():
        if figure.source:
            uses[figure.source.id] = uses.get(figure.source.id, 0) + 1
    for source in topic.sources.values():
        if source.read > today + datetime.timedelta(days=1):  # elsewhere it is tomorrow already
            yield Problem(source.line, "future", f"source {source.id}: read on {source.read}, which is to come")
        elif months(source.read, today) > topic.limit_months and source.id in uses:
            message = f"source {source.id}: read on {source.read}, longer than {topic.limit_months} months ago"
            hint = f"{uses[source.id]} figures rest on it: read it again and set `read`"
            yield Problem(source.line, "too-old", message, hint)


def months(start: datetime.date, end: datetime.date) -> float:
    return (end - start).days / 30.4375


def _unused(topic: Topic) -> Iterator[Problem]:
    used = {figure.source.id for _, figure in topic.all_figures() if figure.source}
    for source in topic.sources.values():
        if source.id not in used:
            yield Problem(source.line, "unused", f"no figure cites the source {source.id}", severity="notice")
    for column in topic.columns.values():
        if not any(column.name in record.figures for record in topic.records.values()):
            yield Problem(column.line, "unused", f"no record has the column {column.name}", severity="notice")


def check_data(data: Data, today: datetime.date) -> list[Finding]:
    """The findings of all topic files: form and content."""
    found = list(data.findings)
    for topic in data.topics.values():
        found += [problem.finding(topic.path) for problem in check_topic(topic, today)]
    return found

"""The body of a `figures` fence, read against the data; charts choose their records in the same words."""

from openbook.data.fields import Fields
from openbook.data.lines import Node
from openbook.data.load import Data, UnknownName
from openbook.data.model import ATTRIBUTES, Column, Record, Topic
from openbook.data.problem import Problem
from openbook.data.units import UnitError, factor
from openbook.fences.figures_model import Request

HEADS = {"accelerators": "Accelerator", "interconnects": "Link", "clouds": "Instance", "storage": "Device"}
HEADS |= {"formats": "Format", "models": "Model", "failures": "System"}


def request_of(root: Node, data: Data, problems: list[Problem]) -> Request | None:
    """What the body asks for; None where that is unknown."""
    fields = Fields(root, "the fence", problems)
    name = fields.text("topic", required=True)
    topic = data.topics.get(name)
    if topic is None:
        if name:
            fields.known("topic", name, data.topics, "topic")
        return None
    columns = _columns(fields, topic)
    records = _sorted(fields, topic, chosen_records(fields, topic, data))
    units = _units(fields, columns)
    caption = fields.text("caption", required=True, limit=200)
    head = fields.text("head", limit=60) or HEADS.get(topic.name, "Name")
    fields.done()
    if not columns or not caption:
        return None
    if not records:
        fields.bad(root.line, "empty-table", "no record is left to show")
        return None
    return Request(topic, columns, records, units, caption, head)


def _columns(fields: Fields, topic: Topic) -> tuple[Column | str, ...]:
    names = fields.texts("columns", required=True)
    known = [*topic.columns, *ATTRIBUTES]
    found = [name for name in names if fields.known("columns", name, known, "column")]
    if len(set(found)) < len(found):
        fields.bad(fields.line("columns"), "duplicate-key", "a column stands twice")
    return tuple(topic.columns.get(name, name) for name in dict.fromkeys(found))


def chosen_records(fields: Fields, topic: Topic, data: Data) -> list[Record]:
    """Those that `records` or `filter` chooses, all where there is neither."""
    if "records" in fields.items and "filter" in fields.items:
        fields.bad(fields.line("filter"), "unknown-field", "the fence has both records and filter", "one of them")
    chosen = []
    for name in fields.texts("records"):
        try:
            chosen.append(data.record(topic.name, name))
        except UnknownName as problem:
            fields.bad(fields.line("records"), "unknown-record", str(problem))
    if len({record.id for record in chosen}) < len(chosen):
        fields.bad(fields.line("records"), "duplicate-key", "a record stands twice")
    node = fields.take("filter")
    if node is None:
        return chosen if "records" in fields.items else list(topic.records.values())
    inner = Fields(node, "filter", fields.problems)
    left = list(topic.records.values())
    for attribute in ATTRIBUTES:
        if attribute in inner.items:
            wanted = inner.texts(attribute)
            existing = {getattr(record, attribute) for record in topic.records.values()} - {""}
            for word in wanted:
                inner.known(attribute, word, sorted(existing), attribute)
            left = [record for record in left if getattr(record, attribute) in wanted]
    inner.taken += ATTRIBUTES
    inner.done()
    return left


def _sorted(fields: Fields, topic: Topic, records: list[Record]) -> tuple[Record, ...]:
    wish = fields.text("sort")
    name, falling = wish.removeprefix("-"), wish.startswith("-")
    if not wish or not fields.known("sort", name, [*topic.columns, *ATTRIBUTES, "name"], "column"):
        return tuple(records)

    def key(record: Record) -> tuple[bool, float, str]:
        """Records without a value come last, whichever the direction."""
        if name not in topic.columns:
            return False, 0.0, getattr(record, name).casefold()
        figure = record.figure(name)
        value = figure.in_unit() if figure else None
        if isinstance(value, (int, float)):
            return falling, float(value), ""
        return value is None and not falling, 0.0, value or ""

    return tuple(sorted(records, key=key, reverse=falling))


def _units(fields: Fields, columns: tuple[Column | str, ...]) -> dict[str, str]:
    shown = {column.name: column for column in columns if isinstance(column, Column)}
    units = {}
    for name, node in fields.mapping("units").items():
        if name not in shown:
            fields.bad(node.key_line, "unknown-column", f"units: {name!r} is not among the columns shown")
            continue
        try:
            factor(shown[name].unit, str(node.value))
        except UnitError as problem:
            fields.bad(node.line, "wrong-unit", f"units: {name}: {problem}")
            continue
        units[name] = str(node.value)
    return units

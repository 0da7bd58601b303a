"""What must hold between the figures of a record: identities of the topic, formulas of derived values."""

from collections.abc import Iterator

from openbook.data.model import Identity, Record, Topic
from openbook.data.problem import Problem
from openbook.expressions import Expression, ExpressionError, cycle, evaluate, parse

DERIVED_TOLERANCE = 0.005  # published figures are rounded to three digits


def check_identities(topic: Topic) -> Iterator[Problem]:
    """Each identity that a record breaks, at the line of the record's figure; and identities that cannot be read."""
    for identity in topic.identities:
        try:
            formula, condition = _parsed(identity, topic)
        except ExpressionError as problem:
            yield Problem(identity.line, "bad-formula", f"identity {identity.expr!r}: {problem}")
            continue
        for record in topic.records.values():
            try:
                yield from _broken(identity, formula, condition, record)
            except ExpressionError as problem:
                yield Problem(record.line, "bad-formula", f"{record.id}: identity {identity.expr!r}: {problem}")


def _parsed(identity: Identity, topic: Topic) -> tuple[Expression, Expression | None]:
    formula = parse(identity.expr, topic.columns)
    if formula.comparison() is None:
        raise ExpressionError("must be one comparison, such as `a == 2 * b`")
    names = [*topic.columns, "id", "name", "vendor", "group", "status", "per"]
    return formula, parse(identity.condition, names) if identity.condition else None


def _broken(identity: Identity, formula: Expression, condition: Expression | None, record: Record) -> Iterator[Problem]:
    values = record.values()
    if any(name not in values for name in formula.names):
        return
    if condition is not None:
        known = {**values, **record.attributes()}
        if any(name not in known for name in condition.names) or not condition.evaluate(known):
            return
    symbol, left, right = formula.comparison() or ("", {}, {})
    a, b = evaluate(left, values), evaluate(right, values)
    holds = _close(a, b, identity.tolerance) if symbol == "==" else formula.evaluate(values)
    if not holds:
        line = record.figures[formula.names[0]][0].line if formula.names else record.line
        numbers = ", ".join(f"{name} {values[name]:.6g}" for name in formula.names)
        within = f" within {identity.tolerance:.2%}" if symbol == "==" else ""
        message = f"{record.id}: {identity.expr} does not hold{within}: {numbers}"
        yield Problem(line, "identity", message, identity.note)


def _close(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def check_derived(topic: Topic) -> Iterator[Problem]:
    """Derived values that do not follow from the record's other figures."""
    for record in topic.records.values():
        formulas: dict[str, Expression] = {}
        for name, figures in record.figures.items():
            for figure in figures:
                if not figure.derived:
                    continue
                try:
                    formulas[name] = parse(figure.derived, topic.columns)
                except ExpressionError as problem:
                    yield Problem(figure.line, "bad-formula", f"{record.id}.{name}: derived: {problem}")
        if loop := cycle({name: formula.names for name, formula in formulas.items()}):
            line = record.figures[loop[0]][0].line
            yield Problem(line, "cyclic", f"{record.id}: derived in a circle: {' → '.join(loop)}")
            continue
        for name, formula in formulas.items():
            yield from _underived(record, name, formula)


def _underived(record: Record, name: str, formula: Expression) -> Iterator[Problem]:
    values, figure = record.values(), record.figures[name][0]
    what = f"{record.id}.{name}"
    if missing := [other for other in formula.names if other not in values]:
        yield Problem(figure.line, "bad-formula", f"{what}: derived from {missing[0]}, which has no value here")
        return
    try:
        result = formula.number(values)
    except ExpressionError as problem:
        yield Problem(figure.line, "bad-formula", f"{what}: derived: {problem}")
        return
    if name in values and not _close(values[name], result, DERIVED_TOLERANCE):
        message = f"{what} is {values[name]:.6g}, but {formula.text} = {result:.6g}"
        yield Problem(figure.line, "identity", message)

"""The body of a `calculator` fence → a Calculator, or what is wrong with it, each with its line."""

import keyword

from openbook.data.fields import IDENTIFIER, WORD, Fields, nearest
from openbook.data.lines import Node
from openbook.data.load import Data, UnknownName
from openbook.data.model import Source
from openbook.data.problem import Problem
from openbook.data.schema import read_named, read_source
from openbook.data.units import UNITS, UnitError
from openbook.expressions import FUNCTIONS, ExpressionError, cycle, parse
from openbook.fences.calculator_model import Calculator, Case, Formula, Input, Preset

MOST = 30  # inputs, formulas, cases, records of a preset: a page is read by people
DIGITS = 4


def read_calculator(root: Node, data: Data, problems: list[Problem]) -> Calculator | None:
    """None where something is wrong."""
    before = len(problems)
    fields = Fields(root, "the calculator", problems)
    identifier = fields.text("id", required=True, pattern=IDENTIFIER, limit=40)
    title, about = fields.text("title", required=True, limit=120), fields.text("about")
    inputs = dict(read_named(fields, "inputs", _input, WORD))
    formulas = dict(read_named(fields, "formulas", _formula, WORD))
    sources = dict(read_named(fields, "sources", read_source, IDENTIFIER))
    outputs = fields.texts("outputs", required=True)
    for part in (inputs, formulas):
        if len(part) > MOST:
            fields.bad(root.line, "too-many", f"more than {MOST} inputs or formulas")
    for name in outputs:
        fields.known("outputs", name, formulas, "formula")
    for name in formulas.keys() & inputs.keys():
        fields.bad(formulas[name].line, "duplicate-key", f"{name!r} is an input and a formula")
    cases = [_case(node, inputs, formulas, sources, problems) for node in fields.list("cases", required=True)]
    presets = [_preset(name, node, inputs, data, problems) for name, node in fields.mapping("presets").items()]
    fields.done()
    if len(problems) > before:
        return None
    ordered = _ordered(formulas, inputs, problems)
    if ordered is None:
        return None
    return Calculator(
        identifier, title, inputs, ordered, tuple(outputs), tuple(filter(None, presets)), sources,
        tuple(filter(None, cases)), about,
    )  # fmt: skip


def _name_problem(name: str, fields: Fields) -> None:
    if keyword.iskeyword(name) or name in FUNCTIONS:
        fields.bad(fields.node.key_line, "bad-text", f"{name!r} has a meaning in formulas: choose another name")


def _unit(fields: Fields) -> str:
    unit = fields.text("unit") or "1"
    if unit not in UNITS or UNITS[unit].dimension == "date":
        fields.bad(fields.line("unit"), "wrong-unit", f"{fields.what}: unknown unit {unit!r}", nearest(unit, UNITS))
        return "1"
    return unit


def _input(name: str, node: Node, problems: list[Problem]) -> Input | None:
    before = len(problems)
    fields = Fields(node, f"input {name}", problems)
    _name_problem(name, fields)
    title, unit, note = fields.text("title", required=True, limit=60), _unit(fields), fields.text("note")
    choices = tuple(choice for item in fields.list("choices") if (choice := _choice(item, unit, problems)))
    ends = [end for item in fields.list("range", required=not choices) if (end := _number(item, problems)) is not None]
    whole = bool(fields.of("whole", bool, "true/false"))
    default = fields.of("default", str if unit == "text" else (int, float), "text" if unit == "text" else "a number", required=True)  # fmt: skip
    fields.done()
    if len({value for value, _ in choices}) < len(choices):
        fields.bad(fields.line("choices"), "duplicate-key", f"a choice of {fields.what} stands twice")
    if "choices" in fields.items and "range" in fields.items:
        fields.bad(fields.line("range"), "unknown-field", f"{fields.what} has both choices and range", "one of them")
    elif unit == "text" and not choices:
        fields.bad(node.line, "missing-field", f"{fields.what} is text and has no 'choices'")
    elif not choices and len(problems) == before and (len(ends) != 2 or ends[0] >= ends[1]):
        fields.bad(fields.line("range"), "wrong-type", f"'range' of {fields.what} must be [least, most]")
    if len(problems) > before or default is None:
        return None
    least, most = ends or (0, 0)
    made = Input(name, title, unit, node.key_line, default, least, most, whole, choices, note)
    if problem := made.refused(default):
        fields.bad(fields.line("default"), "bad-number", f"the default of {fields.what} is not allowed: {problem}")
        return None
    return made


def _choice(node: Node, unit: str, problems: list[Problem]) -> tuple[float | str, str] | None:
    fields = Fields(node, "a choice", problems)
    value = fields.of("value", str if unit == "text" else (int, float), "text" if unit == "text" else "a number", True)
    title = fields.text("title", required=True, limit=60)
    fields.done()
    return (value, title) if value is not None and title else None


def _number(node: Node, problems: list[Problem]) -> float | None:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        problems.append(Problem(node.line, "wrong-type", f"a number is expected here, not {node.kind()}"))
        return None
    return node.value


def _formula(name: str, node: Node, problems: list[Problem]) -> Formula | None:
    before = len(problems)
    fields = Fields(node, f"formula {name}", problems)
    _name_problem(name, fields)
    title, unit, note = fields.text("title", required=True, limit=60), _unit(fields), fields.text("note")
    digits = fields.number("digits", least=1)
    text = fields.text("expr", required=True, limit=1000)
    fields.done()
    if unit == "text":
        fields.bad(fields.line("unit"), "wrong-unit", f"{fields.what}: the result is a number, not text")
    if digits is not None and (digits > 12 or digits != int(digits)):
        fields.bad(fields.line("digits"), "bad-number", f"'digits' of {fields.what} must be a whole number up to 12")
    if len(problems) > before:
        return None
    try:
        return Formula(name, title, unit, fields.line("expr"), parse(text), int(digits or DIGITS), note)
    except ExpressionError as problem:
        fields.bad(fields.line("expr"), "bad-formula", f"{fields.what}: {problem}")
        return None


def _ordered(
    formulas: dict[str, Formula], inputs: dict[str, Input], problems: list[Problem]
) -> dict[str, Formula] | None:
    """The formulas, each after those that it reads."""
    known = [*inputs, *formulas]
    before = len(problems)
    for formula in formulas.values():
        for name in formula.expression.names:
            if name not in known:
                message = f"formula {formula.name}: unknown name {name!r}"
                problems.append(Problem(formula.line, "bad-formula", message, nearest(name, known)))
    read = {name for formula in formulas.values() for name in formula.expression.names}
    for one in inputs.values():
        if one.name not in read:
            problems.append(Problem(one.line, "unused", f"no formula reads the input {one.name}"))
    if loop := cycle({formula.name: formula.expression.names for formula in formulas.values()}):
        message = f"formulas read each other in a circle: {' → '.join(loop)}"
        problems.append(Problem(formulas[loop[0]].line, "cyclic", message))
    if len(problems) > before:
        return None
    ordered: dict[str, Formula] = {}
    while left := [formula for name, formula in formulas.items() if name not in ordered]:
        for formula in left:
            if all(name in ordered or name in inputs for name in formula.expression.names):
                ordered[formula.name] = formula
    return ordered


def _given(fields: Fields, part: str, inputs: dict[str, Input]) -> dict[str, float | str]:
    """Values of inputs, each allowed."""
    found: dict[str, float | str] = {}
    for name, node in fields.mapping(part, required=True).items():
        if name not in inputs:
            fields.bad(node.key_line, "unknown-field", f"{fields.what}: no input {name!r}", nearest(name, inputs))
        elif isinstance(node.value, bool) or not isinstance(node.value, (int, float, str)):
            fields.bad(node.line, "wrong-type", f"{fields.what}: {name} must be a number, not {node.kind()}")
        elif problem := inputs[name].refused(node.value):
            fields.bad(node.line, "bad-number", f"{fields.what}: {problem}")
        else:
            found[name] = node.value
    return found


def _case(
    node: Node, inputs: dict[str, Input], formulas: dict[str, Formula], sources: dict[str, Source], problems: list[Problem]
) -> Case | None:  # fmt: skip
    before = len(problems)
    fields = Fields(node, "a case", problems)
    title = fields.text("title", required=True, limit=80)
    fields.what = f"case {title!r}" if title else "a case"
    given = _given(fields, "inputs", inputs)
    results = fields.mapping("results", required=True)
    for name, item in results.items():
        if name not in formulas:
            fields.bad(item.key_line, "unknown-field", f"{fields.what}: no formula {name!r}", nearest(name, formulas))
        _number(item, problems)
    source = fields.text("source", required=True)
    if source and fields.known("source", source, sources, "source"):
        tolerance = fields.number("tolerance", least=0)
        fields.done()
        if len(problems) == before:
            values = {name: item.value for name, item in results.items()}
            lines = {name: item.key_line for name, item in results.items()}
            return Case(title, node.line, given, values, lines, sources[source], tolerance)
    return None


def _preset(name: str, node: Node, inputs: dict[str, Input], data: Data, problems: list[Problem]) -> Preset | None:
    """`set` says which column of the records goes into which input; a record without one of them is an error."""
    fields = Fields(node, f"preset {name}", problems)
    title, topic = fields.text("title", required=True, limit=60), fields.text("topic", required=True)
    columns = fields.mapping("set", required=True)
    options: list[tuple[str, dict[str, float | str]]] = []
    for record_id in fields.texts("records", required=True)[:MOST]:
        values: dict[str, float | str] = {}
        try:
            record = data.record(topic, record_id)
            for input_name, column in columns.items():
                if input_name not in inputs:
                    raise UnknownName(f"no input {input_name!r}")
                _, figure = data.figure(f"{topic}.{record_id}.{column.value}")
                value = figure.in_unit(inputs[input_name].unit)
                if value is None or (refused := inputs[input_name].refused(value)):
                    raise UnknownName(f"{record_id} has no value for {input_name}" if value is None else refused)
                values[input_name] = value
        except (UnknownName, UnitError) as problem:
            fields.bad(fields.line("records"), "unknown-record", f"{fields.what}: {problem}")
            continue
        options.append((record.name, values))
    fields.done()
    return Preset(title, tuple(options)) if title and options else None

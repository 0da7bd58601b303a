"""Small formulas over numbers: parsed once, checked, evaluated here, and emitted as JSON for the page.

    peak = parse("units * rate * clock / 1e6", names={"units", "rate", "clock"})
    peak.evaluate({"units": 132, "rate": 4096, "clock": 1830})

Python's syntax: + - * / // % **, comparisons, and/or/not, `a if c else b`, min, max, ceil, floor, log, log2,
log10, sqrt, abs. Text stands only in comparisons (`vendor == "NVIDIA"`). Nothing else is accepted, so a
formula from a page cannot do anything but arithmetic. All numbers are doubles, as in a browser: both
evaluators give the same result. A result is a finite number or true/false, or an error that says why not.
"""

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Value = float | bool | str
Tree = dict[str, Any]  # the JSON form

MAX_LENGTH, MAX_DEPTH = 1000, 40


class ExpressionError(ValueError):
    """A formula that cannot be parsed or evaluated; the message says what and, for the syntax, where."""


def _floor_divide(a: float, b: float) -> float:
    return float(math.floor(a / b))


def _modulo(a: float, b: float) -> float:
    return a - b * math.floor(a / b)


def _power(a: float, b: float) -> float:
    result = a**b
    if isinstance(result, complex):
        raise ExpressionError(f"{a:g} ** {b:g} is not a real number")
    return result


def _log(x: float, base: float | None = None) -> float:
    return math.log(x) if base is None else math.log(x) / math.log(base)


ARITHMETIC: dict[type, tuple[str, Callable[[float, float], float]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", _floor_divide),
    ast.Mod: ("%", _modulo),
    ast.Pow: ("**", _power),
}
COMPARISONS: dict[type, tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
# name: (function, least and most number of arguments)
FUNCTIONS: dict[str, tuple[Callable[..., float], int, int]] = {
    "min": (min, 1, 20),
    "max": (max, 1, 20),
    "ceil": (lambda x: float(math.ceil(x)), 1, 1),
    "floor": (lambda x: float(math.floor(x)), 1, 1),
    "log": (_log, 1, 2),
    "log2": (math.log2, 1, 1),
    "log10": (math.log10, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "abs": (abs, 1, 1),
}
_OPERATORS = dict([*ARITHMETIC.values(), *COMPARISONS.values()])


@dataclass(frozen=True)
class Expression:
    """A checked formula. `names` are the variables it reads, in order of appearance."""

    text: str
    tree: Tree
    names: tuple[str, ...]

    def evaluate(self, values: Mapping[str, float | int | str]) -> Value:
        """The result: a finite float, a bool, or the text of a variable. Raises ExpressionError."""
        return evaluate(self.tree, values)

    def number(self, values: Mapping[str, float | int | str]) -> float:
        """The result as a number. Raises ExpressionError."""
        return _number(self.evaluate(values), self.text)

    def comparison(self) -> tuple[str, Tree, Tree] | None:
        """(operator, left, right) of a formula that is one comparison."""
        if "compare" in self.tree and len(self.tree["compare"]) == 1:
            return self.tree["compare"][0], *self.tree["args"]
        return None


def parse(text: str, names: Collection[str] | None = None) -> Expression:
    """Parse and check. `names`, where given, are the variables that exist. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as problem:
        raise ExpressionError(f"{text!r}: {problem.msg}") from None
    except (ValueError, RecursionError, MemoryError):  # null characters, thousands of brackets or digits
        raise ExpressionError(f"{text[:60]!r} cannot be parsed") from None
    tree = _tree(node, 0)
    found = tuple(dict.fromkeys(_names(tree)))
    for name in found:
        if names is not None and name not in names:
            from openbook.data.fields import nearest

            hint = nearest(name, names)
            raise ExpressionError(f"unknown name {name!r}" + (f": {hint}" if hint else ""))
    return Expression(text.strip(), tree, found)


def _tree(node: ast.expr, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels")

    def below(*nodes: ast.expr) -> list[Tree]:
        return [_tree(one, depth + 1) for one in nodes]

    match node:
        case ast.Constant(value=bool()):
            raise ExpressionError("true and false are results, not values: write the comparison")
        case ast.Constant(value=int() | float() as value):
            return {"number": _finite(value, ast.unparse(node)[:40])}
        case ast.Constant(value=str() as value):
            return {"text": value}
        case ast.Name(id=name):
            return {"name": name}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return {"op": ARITHMETIC[type(op)][0], "args": below(left, right)}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return {"op": "neg", "args": below(operand)}
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _tree(operand, depth + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return {"op": "not", "args": below(operand)}
        case ast.BoolOp(op=op, values=values):
            return {"op": "and" if isinstance(op, ast.And) else "or", "args": below(*values)}
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
            return {"compare": [COMPARISONS[type(op)][0] for op in ops], "args": below(left, *others)}
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return {"op": "if", "args": below(test, body, orelse)}
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return {"call": _function(name, len(args)), "args": below(*args)}
    raise ExpressionError(f"{ast.unparse(node)[:60]!r} is not allowed in a formula")


def _function(name: str, count: int) -> str:
    if name not in FUNCTIONS:
        raise ExpressionError(f"unknown function {name!r}: one of {', '.join(FUNCTIONS)}")
    _, least, most = FUNCTIONS[name]
    if not least <= count <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise ExpressionError(f"{name}() takes {wanted} values, not {count}")
    return name


def _names(tree: Tree) -> Iterator[str]:
    if "name" in tree:
        yield tree["name"]
    for one in tree.get("args", ()):
        yield from _names(one)


def evaluate(tree: Tree, values: Mapping[str, float | int | str]) -> Value:
    """Evaluate a tree or a part of one. Raises ExpressionError."""
    if "number" in tree:
        return tree["number"]
    if "text" in tree:
        return tree["text"]
    if "name" in tree:
        if tree["name"] not in values:
            raise ExpressionError(f"there is no value for {tree['name']!r}")
        value = values[tree["name"]]
        return value if isinstance(value, str) else _finite(value, tree["name"])
    if "compare" in tree:
        return _compare(tree["compare"], [evaluate(one, values) for one in tree["args"]])
    if tree.get("op") in ("if", "and", "or", "not"):
        return _choose(tree["op"], tree["args"], values)
    numbers = [_number(evaluate(one, values), "a part of the formula") for one in tree["args"]]
    return _calculate(tree, numbers)


def _choose(op: str, args: list[Tree], values: Mapping[str, float | int | str]) -> Value:
    if op == "if":
        return evaluate(args[1] if _truth(evaluate(args[0], values)) else args[2], values)
    if op == "not":
        return not _truth(evaluate(args[0], values))
    parts = (_truth(evaluate(one, values)) for one in args)
    return all(parts) if op == "and" else any(parts)


def _compare(symbols: list[str], results: list[Value]) -> bool:
    for symbol, left, right in zip(symbols, results, results[1:]):
        if isinstance(left, str) != isinstance(right, str):
            raise ExpressionError(f"{left!r} {symbol} {right!r} compares text with a number")
        if not _OPERATORS[symbol](left, right):
            return False
    return True


def _calculate(tree: Tree, numbers: list[float]) -> float:
    what = tree.get("call") or tree["op"]
    function = FUNCTIONS[what][0] if "call" in tree else operator.neg if what == "neg" else _OPERATORS[what]
    try:
        return _finite(function(*numbers), what)
    except ZeroDivisionError:
        raise ExpressionError(f"division by zero in {what}") from None
    except OverflowError:
        raise ExpressionError(f"the result of {what} is too large") from None
    except ValueError as problem:
        if isinstance(problem, ExpressionError):
            raise
        raise ExpressionError(f"{what}({', '.join(f'{x:g}' for x in numbers)}) is not defined") from None


def _finite(value: float, what: str) -> float:
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ExpressionError(f"{what} is not a finite number")
    return value


def _number(value: Value, what: str) -> float:
    if isinstance(value, (bool, str)):
        raise ExpressionError(f"{what} gives {value!r} where a number is needed")
    return value


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(f"{value!r} is not a condition")
    return value


def cycle(formulas: Mapping[str, Iterable[str]]) -> list[str]:
    """A cycle among formulas that read each other (name → names read), first name repeated last; [] if none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done or name not in formulas:
            return []
        for other in formulas[name]:
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    for name in formulas:
        if found := visit(name, []):
            return found
    return []

"""Numbers as a page shows them."""

from openbook.data.model import Figure
from openbook.data.units import convert

FEWEST_DIGITS = 4  # of a value that was converted


def digits_of(value: float | int) -> int:
    """How many significant digits a value is written with; trailing zeros of an integer do not count."""
    mantissa = f"{value!r}".lower().partition("e")[0].lstrip("-").replace(".", "").lstrip("0")
    return max(1, len(mantissa.rstrip("0")))


def rounded(value: float, digits: int) -> float | int:
    """The value with so many significant digits."""
    result = float(f"{value:.{digits - 1}e}")
    return int(result) if result.is_integer() and abs(result) < 1e15 else result


def number(value: float | int) -> str:
    """1,979 and 3.35; beyond 10¹⁵ and below 10⁻⁴ with an exponent."""
    if value and not 1e-4 <= abs(value) < 1e15:
        mantissa, _, exponent = f"{float(value)!r}".partition("e")
        if not exponent:
            mantissa, _, exponent = f"{value:.6e}".partition("e")
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else f"{float(f'{value:.12g}'):,}"


def in_unit(figure: Figure, unit: str) -> float | int:
    """A figure's number in another unit, rounded where converting made digits that the source has not."""
    value = figure.value
    if not isinstance(value, (int, float)):
        raise TypeError(f"{figure.column.name} holds no number")
    converted = convert(value, figure.unit, unit)
    return rounded(converted, max(FEWEST_DIGITS, digits_of(value))) if unit != figure.unit else value


def shown(figure: Figure, unit: str = "", digits: int = 0) -> str:
    """A figure's value without its unit; `digits` limits the significant ones."""
    if figure.text and not digits and (not unit or unit == figure.column.unit):
        return figure.text
    if not isinstance(figure.value, (int, float)):
        return str(figure.value)
    value = in_unit(figure, unit or figure.column.unit)
    return number(rounded(value, digits) if digits else value)


def unit_shown(unit: str) -> str:
    """A unit as a page writes it after a number; "" for plain numbers."""
    return "" if unit in ("1", "text", "date") else unit

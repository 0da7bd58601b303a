"""Where the labels of a chart stand, so that none covers another."""

import itertools
from collections.abc import Sequence

LINE = 15.0  # height of a line of text in the view box
LETTER = 7.4  # width of a letter of the 13 px text, generously
RADIUS = 6.0
NAME_ROOM = 125.0  # at the right of a plot, for the names of its lines

Box = tuple[float, float, float, float]  # left, top, right, bottom


def width_of(text: str) -> float:
    return len(text) * LETTER


def spread(heights: Sequence[float]) -> list[float]:
    """The heights, moved apart until each has a line for itself; their order stays."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = [float(height) for height in heights]
    for _ in range(50):
        still = True
        for above, below in itertools.pairwise(order):
            missing = LINE - (moved[below] - moved[above])
            if missing > 0.01:
                moved[above] -= missing / 2
                moved[below] += missing / 2
                still = False
        if still:
            break
    return moved


def place(
    dots: Sequence[tuple[float, float]], labels: Sequence[str], width: float, obstacles: Sequence[Box] = ()
) -> list[tuple[float, float]]:
    """Left end and baseline of each dot's label: beside, below or above it, where it covers least."""
    taken: list[Box] = [*obstacles] + [(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in dots]
    placed = []
    for (x, y), label in zip(dots, labels):
        w = width_of(label)
        beside = [(x + 8, 0), (x - 8 - w, 0), (x - w / 2, LINE), (x - w / 2, -LINE)]
        corners = [(left, down) for down in (-11, 11, -22, 22) for left in (x + 6, x - w / 2, x - 6 - w)]
        sides = [(left, y + down) for left, down in beside + corners]
        boxes = [(left, middle - LINE / 2, left + w, middle + LINE / 2) for left, middle in sides]
        best = min(boxes, key=lambda box: sum(_shared(box, other) for other in taken) + 500 * _outside(box, width))
        taken.append(best)
        placed.append((best[0], best[3] - 3.5))
    return placed


def _shared(a: Box, b: Box) -> float:
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return across * down if across > 0 and down > 0 else 0.0


def _outside(box: Box, width: float) -> float:
    return max(0.0, -box[0]) + max(0.0, box[2] - width)

"""Colours that colour-blind people can tell apart; a policy has the same colour everywhere."""

from __future__ import annotations

INK, SOFT, FAINT, BAND = "#30343f", "#6b7280", "#e6e8eb", "#eef0f3"
"""Text and axes; notes; grid lines; the area in which there is no difference."""

BLUE, VERMILLION, ORANGE, SKY, GREEN, BROWN = "#0072b2", "#d55e00", "#e69f00", "#56b4e9", "#009e73", "#7a4a00"
"""Okabe & Ito's colours, and a brown."""

COLOURS = {
    "AdaptiveGraphUCB": BLUE,
    "GraphUCB": VERMILLION,
    "GraphUCB-Local": ORANGE,
    "GraphUCB-Local, gauss-seidel": BROWN,
    "Gob.Lin": SKY,
    "CLUB": GREEN,
    "LinUCB": SOFT,
}
SAME = {
    "adaptive": "AdaptiveGraphUCB",
    "graphucb": "GraphUCB",
    "graphucb-local": "GraphUCB-Local",
    "GraphUCBLocal": "GraphUCB-Local",
    "goblin": "Gob.Lin",
    "GobLin": "Gob.Lin",
    "club": "CLUB",
    "linucb": "LinUCB",
    "LinUCB, each user alone": "LinUCB",
    "LinUCB, known norm": "LinUCB",
}
"""Other names of these policies: on the command line, as classes, in a first look, in the report on the paper."""
OTHERS = ("#cc79a7", "#332288", "#999933", "#882255", "#44aa99", "#000000", "#aa4499", "#ddcc77")
"""Colours of other curves, in turn; curves also differ in their markers."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")

TASTE_COLOURS, UNCERTAINTY_COLOURS, INFLUENCE_COLOURS = "PuOr", "cividis_r", "Blues"
"""Matplotlib's colour maps for values of users: readable without red and green, and in grey."""


def colour(name: str, position: int = 0) -> str:
    """Return the colour of a policy; for other names, the one at this position of a list.

    Examples
    --------
    >>> colour("GraphUCB") == colour("graphucb")
    True
    >>> colour("my own policy", 1)
    '#332288'
    """
    return COLOURS.get(SAME.get(name, name), OTHERS[position % len(OTHERS)])


def darker(shade: str, share: float = 0.25) -> str:
    """Mix the colour with this share of black: light colours cannot be read as text on white."""
    parts = (round(int(shade[k : k + 2], 16) * (1 - share)) for k in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)

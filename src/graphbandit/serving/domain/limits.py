"""Limits of ids and weights, for the HTTP interface and for input files alike."""

LONGEST_ID = 200
LARGEST_WEIGHT = 1e6
SMALLEST_WEIGHT = 1e-6
ENCODED_SLASH = "\ue000"
"""Stands for a slash inside an id while a path is split into segments. For that reason ids must not
contain it."""

"""Second-order fits: the rows and their folds, shapes of networks, teachers, lanes of sizes."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "boosting",
    "dense",
    "drawing",
    "fit_rows",
    "folded",
    "lanes",
    "last_fits",
    "lesson",
    "second_order",
    "teachers",
    "whole_numbers",
]

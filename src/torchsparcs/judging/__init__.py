"""How good a network is: folds, scores, calibration, the candidates and the choice among them."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "calibration",
    "candidates",
    "class_weights",
    "correction",
    "default_scoring",
    "folds",
    "judgement",
    "scoring",
]

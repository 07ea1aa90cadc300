"""About how much flash a network takes as C, in words."""

from torchsparcs.export.folding import Program
from torchsparcs.export.predicting import error_of, predict_cost

NAMES = {"cortex-m4": "a Cortex-M4", "cortex-m0": "a Cortex-M0", "avr": "an AVR"}


def flash_words(program: Program | None) -> str:
    """The bytes on each chip by the formula of a search; nothing without a program."""
    if program is None:
        return ""
    told = [
        f"{predict_cost(program, chip).flash:,} bytes on {name}" for chip, name in NAMES.items()
    ]
    off = ", ".join(f"{100 * error_of(chip):.0f}" for chip in NAMES)
    return (
        f"As C in float, with its preprocessing and libraries, it takes about {', '.join(told)}: "
        f"predicted, off by {off} % on average. int8 takes less on chips without floats."
    )

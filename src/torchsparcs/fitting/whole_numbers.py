"""Networks in int8 during a search: what they weigh, and what the rows that judge say of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.folding import table_program
from torchsparcs.export.quantization import QuantizedNetwork, quantized
from torchsparcs.fitting.dense import compact
from torchsparcs.fitting.folded import FoldedData
from torchsparcs.judging.calibration import cool_
from torchsparcs.tables.preprocessing import Inputs, Preprocessing

MOST_ROWS = 5000  # that the ranges of int8 are fitted to
FEW_ROWS = 500  # that are enough to tell its bytes


@dataclass(frozen=True)
class WholeNumbers:
    """The rows of a search as generated code takes them.

    Attributes:
        encoded: (rows, supplied), as ``Inputs.encode`` gives them.
        folded: the same rows and who judges them; on the CPU, and judged as they are.
    """

    preprocessing: Preprocessing
    encoded: np.ndarray
    folded: FoldedData

    @classmethod
    def of(cls, preprocessing: Preprocessing, folded: FoldedData) -> "WholeNumbers":
        folded = replace(folded.to(torch.device("cpu")), bounded=None, is_calibrated=False)
        return cls(preprocessing, encoded_again(preprocessing.inputs, folded.inputs), folded)

    def small(self, network: CompactNetwork) -> QuantizedNetwork:
        """``network``, fitted to all rows, in int8; its ranges are those of some of them."""
        return self._quantized(network, self.folded.folds.is_fitted, FEW_ROWS)

    def score(self, networks: Sequence[DirectSpace], temperature: float) -> float:
        """The score of a group of fits in int8, by the rows that judge it in float.

        Each fit is made whole by the rows that it was fitted to. The scores of candidates are in
        the same unit.
        """
        rows = self.folded.folds.judged.numpy()
        said = []
        for fit, direct in enumerate(networks):
            network = compact(direct).cpu()
            if temperature != 1:
                cool_(network, temperature)
            small = self._quantized(network, self.folded.folds.fitted[fit], MOST_ROWS)
            program = small.program
            outputs = small.answers(program.fields_of(self.encoded[rows]))
            said.append(torch.from_numpy(program.standard(outputs).astype(np.float32)))
        (judgement,) = self.folded.judge_outputs(torch.stack(said))
        return judgement.score

    def _quantized(
        self, network: CompactNetwork, is_fitted: torch.Tensor, most: int
    ) -> QuantizedNetwork:
        program = table_program(network, self.preprocessing)
        rows = is_fitted.nonzero().squeeze(1).numpy()
        rows = rows[:: max(1, -(-len(rows) // most))]
        return quantized(program, program.fields_of(self.encoded[rows]))


def encoded_again(inputs: Inputs, standard: torch.Tensor) -> np.ndarray:
    """The encoded columns (n, supplied) that were standardised to ``standard`` (n, encoded)."""
    scale, mean = np.array(inputs.scale), np.array(inputs.mean)
    values = standard.double().numpy() * scale + mean
    is_told = np.zeros(values.shape[1], dtype=bool)
    is_told[[*inputs.indicators]] = True
    found = values[:, ~is_told]
    is_text = [column.kind == "text" for column in inputs.columns for _ in column.supplied_names]
    found[:, is_text] = found[:, is_text].round()
    for told, column in inputs.indicators.items():
        found[values[:, told] > 0.5, column] = np.nan
    return found

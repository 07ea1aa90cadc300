"""What a search of a table found: candidates, predictions, the folder and the page."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsparcs.compact.direct import DirectSpace
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.searching.folded import Judgement
from torchsparcs.searching.folder import read_run, write_run
from torchsparcs.searching.front import Front
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluation_mode, resolve_task


@dataclass(frozen=True)
class Candidate:
    """A network of some size and what it is worth.

    Attributes:
        network: takes standardised inputs and gives raw outputs; ``SearchResult.predict`` goes
            from a table to labels or values.
        score: accuracy or R² on rows that networks made in the same way were not fitted to; the
            best of many candidates on the same rows, so a little flattering.
        standard_error: of the score.
        loss: on the same rows.
        penalty_weight: of the member it was cut from; 1e6 of the one that was kept linear.
        member: the index of that member in the history.
        answers: what was true and what was said of the rows that judged, see
            :class:`torchsparcs.searching.folded.Judgement`; None where that was not kept.
    """

    network: CompactNetwork
    score: float
    standard_error: float
    loss: float
    penalty_weight: float
    member: int
    answers: Tensor | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls, direct: DirectSpace, judgement: Judgement, penalty_weight: float, member: int
    ) -> "Candidate":
        """A network from direct space, on the CPU, and what its like were judged to be worth."""
        network = CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float32)
        return cls(
            network.cpu(),
            score=judgement.score,
            standard_error=judgement.standard_error,
            loss=judgement.loss,
            penalty_weight=penalty_weight,
            member=member,
            answers=judgement.answers,
        )

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.network.size.parameters

    @property
    def macs(self) -> int:
        """Multiply-adds for one row."""
        return self.network.size.macs

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of each layer, inputs and outputs included."""
        return self.network.widths

    @property
    def architecture(self) -> str:
        """In one line, like ``41 of 64 → 6 → 10, skip 41 → 10``."""
        return self.network.architecture


class Attempt(NamedTuple):
    """A network that was judged on the way down, on the front or not.

    Attributes:
        member: that it was cut from.
        cut: how often that member had been cut by then; 0 as it was trained.
        neurons: in its hidden layers.
        macs: None in older folders.
    """

    member: int
    cut: int
    neurons: int
    parameters: int
    score: float
    standard_error: float
    loss: float
    macs: int | None = None

    @classmethod
    def of(cls, candidate: Candidate, cut: int) -> "Attempt":
        return cls(
            member=candidate.member,
            cut=cut,
            neurons=sum(candidate.widths[1:-1]),
            parameters=candidate.parameters,
            score=candidate.score,
            standard_error=candidate.standard_error,
            loss=candidate.loss,
            macs=candidate.macs,
        )


@dataclass(frozen=True)
class SearchResult(Front[Candidate]):
    """The front, from the smallest network to the one with the best score.

    Attributes:
        front: candidates, each with a better score than all smaller ones.
        linear: the linear model, on the front or not.
        preprocessing: from a table to what the networks take, and back.
        history: of the population's training; ``history.member(candidate.member)`` is one's own.
        settings: everything that decided the outcome, as plain values.
        attempts: every network that was judged, in the order in which they were made; none of a
            front that was refitted.
    """

    front: tuple[Candidate, ...]
    linear: Candidate
    preprocessing: Preprocessing
    history: History
    settings: dict[str, Any]
    attempts: tuple[Attempt, ...] = ()

    def _rules(self) -> dict[str, Callable[[], Candidate]]:
        return {**super()._rules(), "linear": lambda: self.linear}

    def outputs(self, X: Any, pick: "str | int | Candidate" = "smallest") -> Tensor:
        """What the network puts out for a table, raw, (rows, outputs)."""
        network = self.pick(pick).network
        parameter = next(network.parameters())
        inputs = self.preprocessing.inputs.transform(X, network.reads).to(parameter.device)
        with evaluation_mode(network):
            return network(inputs)

    def predict(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """Labels, or values in their own units."""
        return self.preprocessing.target.predict(self.outputs(X, pick))

    def predict_proba(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """The probability of each class, (rows, classes)."""
        return self.preprocessing.target.probabilities(self.outputs(X, pick))

    def score(self, X: Any, y: Any, pick: "str | int | Candidate" = "smallest") -> float:
        """Accuracy or R² on other data."""
        target = self.preprocessing.target
        output = self.outputs(X, pick)
        return resolve_task(target.task).score(output, target.transform(y).to(output.device)).item()

    def deployed(self, pick: "str | int | Candidate" = "smallest") -> DeployedNetwork:
        """The network with its preprocessing, an ``nn.Module`` from columns to answers."""
        return DeployedNetwork(self.pick(pick).network, self.preprocessing)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write everything into the folder ``path``; ``load_result`` reads it again.

        By force what an earlier search left there goes, its report.html with it.
        """
        write_run(self, path, force=force)

    def report(
        self,
        path: str | Path = "report.html",
        *,
        folder: str | Path | None = None,
        force: bool = False,
    ) -> Path:
        """Write the page about this search: one file, for any browser.

        ``folder`` is where this is saved, for the lines on the page that load it; by default the
        folder of the page, where a search is saved in it.
        """
        from torchsparcs.report import write_page  # a page is made of results, not they of it

        return write_page(self, path, folder=folder, force=force)

    def __repr__(self) -> str:
        return (
            f"SearchResult({len(self.front)} candidates, {self.front[0].parameters:,} to "
            f"{self.front[-1].parameters:,} parameters, score {self.front[0].score:.4f} to "
            f"{self.front[-1].score:.4f})"
        )


def load_result(path: str | Path) -> SearchResult:
    """The result that :meth:`SearchResult.save` wrote into the folder ``path``."""
    return SearchResult(**read_run(path, Candidate, Attempt))

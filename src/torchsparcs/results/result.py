"""The result of a search: picks, predictions, the folder and the page."""

from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.export.deployment import DeployedNetwork
from torchsparcs.judging.candidates import ROUNDING, Attempt, Candidate, is_same
from torchsparcs.judging.scoring import Scoring, recorded_scoring, scoring_of
from torchsparcs.results.explanation import Explanations
from torchsparcs.results.fidelity import Fidelity, fidelity_of, plain_fidelity
from torchsparcs.results.folder import read_run, write_run
from torchsparcs.results.intervals import interval_around
from torchsparcs.results.sizes import SIZES, Size
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.tables.preprocessing import Inputs, Preprocessing, Target
from torchsparcs.training.history import History
from torchsparcs.training.tasks import evaluation_mode

__all__ = ["LEAST_TOLERANCE", "Attempt", "Candidate", "SearchResult", "is_same", "load_result"]

LEAST_TOLERANCE = 1e-3  # of a score: nobody pays parameters for less
FEW_ROWS = 3  # that are right by luck: ± 3 of 3 comes up in one of four cases


@dataclass(frozen=True)
class SearchResult(Explanations):
    """The front, from the smallest network to the one with the best score.

    Attributes:
        front: candidates, each with a better score than all smaller ones.
        linear: the linear model, on the front or not; None where a network was searched.
        preprocessing: from a table to what the networks take, and back; None where a network was
            searched, which takes tensors.
        history: of the population's training; :meth:`history_of` gives that of one candidate.
        settings: everything that decided the outcome, as plain values.
        attempts: every network that was judged, in the order in which they were made; none of a
            front that was refitted.
        trained: the spectral network as it was trained, where a network was searched.
        by_cost: candidates, each with a better score than all that cost no more; empty where the
            columns have no prices.
    """

    front: tuple[Candidate, ...]
    linear: Candidate | None
    preprocessing: Preprocessing | None
    history: History
    settings: dict[str, Any]
    attempts: tuple[Attempt, ...] = ()
    trained: SpectralNetwork | SpectralChain | None = None
    by_cost: tuple[Candidate, ...] = ()

    def best(self) -> Candidate:
        """The best score to be expected on new rows; in older folders, on those that judged."""
        return max(self.front, key=lambda found: found.told)

    @property
    def size(self) -> Size:
        """What the front is drawn against: parameters, multiply-adds or bytes."""
        return SIZES[self.settings.get("size", "parameters")]

    @property
    def scoring(self) -> Scoring:
        """What made the front: its name, how its scores are written, that of a constant answer."""
        return recorded_scoring(self.settings, self.target)

    @property
    def tolerance(self) -> float:
        """What :meth:`smallest` gives away by default."""
        scoring = self.scoring
        few = FEW_ROWS / self.settings["judged_rows"] if scoring.counts else 0.0
        return max(self.best().standard_error, LEAST_TOLERANCE * scoring.unit, few)

    def smallest(self, tolerance: float | None = None) -> Candidate:
        """The smallest network whose score is within ``tolerance`` of the best one's.

        By default that is one standard error of the best score, and at least 0.001; of a score in
        units of its own, a thousandth of that of the best constant answer; of a share of rows,
        three of them: so many fall to one side by a coin in one of four cases.
        """
        best = self.best()
        allowed = self.tolerance if tolerance is None else tolerance
        if not allowed >= 0:
            raise ValueError(f"Expected a tolerance >= 0. Got {tolerance!r}.")
        enough = best.score - allowed - ROUNDING
        return next(found for found in self.front if found.score >= enough)

    def within(self, max_parameters: int) -> Candidate:
        """The best score to be expected with at most ``max_parameters``."""
        fitting = [found for found in self.front if found.parameters <= max_parameters]
        if not fitting:
            smallest = min(found.parameters for found in self.front)
            raise ValueError(
                f"Expected a budget of at least {smallest} parameters, the smallest network of the "
                f"front. Got {max_parameters}."
            )
        return max(fitting, key=lambda found: found.told)

    def within_cost(self, most: float) -> Candidate:
        """The best score to be expected of a network whose columns cost at most that."""
        if not self.by_cost:
            raise ValueError("Expected a search with costs of its columns. This one had none.")
        both = (*self.by_cost, *self.front)
        fitting = [each for each in both if each.cost is not None and each.cost <= most]
        if not fitting:
            raise ValueError(
                f"Expected a budget of at least {self.by_cost[0].cost:g}, which the cheapest "
                f"network costs. Got {most!r}."
            )
        return max(fitting, key=lambda found: found.told)

    def pick(self, rule: "str | int | Candidate" = "smallest") -> Candidate:
        """The candidate that a rule picks, or of that place on the front.

        The rules are "best" and "smallest", for a table also "linear", and "cost:12" for what
        :meth:`within_cost` gives for 12.
        """
        if isinstance(rule, Candidate):
            return rule
        rules = {"best": self.best(), "smallest": self.smallest()}
        if self.linear is not None:
            rules["linear"] = self.linear
        if isinstance(rule, str) and rule in rules:
            return rules[rule]
        if isinstance(rule, Integral) and not isinstance(rule, bool):
            place = int(rule)
            if 0 <= place < len(self.front):
                return self.front[place]
        if isinstance(rule, str) and (most := most_cost(rule)) is not None:
            return self.within_cost(most)
        known = [*rules, *["cost:X"] * bool(self.by_cost)]
        raise ValueError(
            f"Expected a pick among {', '.join(known)} and 0 to {len(self.front) - 1}. "
            f"Got {rule!r}."
        )

    @property
    def target(self) -> Target:
        """What is predicted; where a network was searched, its outputs as they are."""
        if self.preprocessing is not None:
            return self.preprocessing.target
        return Target.of_outputs(self.settings["task"], self.front[0].widths[-1])

    @property
    def inputs(self) -> Inputs:
        """The encoding of the columns of a table."""
        if self.preprocessing is None:
            raise ValueError("Expected a search of a table. This is one of a network.")
        return self.preprocessing.inputs

    def history_of(self, candidate: Candidate) -> History:
        """The history of the member that ``candidate`` was cut from; empty where it was drawn."""
        if candidate.member is not None:
            return self.history.member(candidate.member)
        return self.history if self.preprocessing is None else History()

    def outputs(self, X: Any, pick: "str | int | Candidate" = "smallest") -> Tensor:
        """What the network puts out for a table, or for rows as it takes them, raw."""
        network = self.pick(pick).network
        like = next(network.parameters())
        if self.preprocessing is None:
            inputs = torch.as_tensor(X).to(like)
        else:
            assert isinstance(network, CompactNetwork)
            inputs = self.preprocessing.inputs.transform(X, network.reads).to(like.device)
        with evaluation_mode(network):
            return network(inputs)

    def predict(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """Labels, or values in their own units."""
        return self.target.predict(self.outputs(X, pick))

    def predict_proba(self, X: Any, pick: "str | int | Candidate" = "smallest") -> np.ndarray:
        """The probability of each class, (rows, classes)."""
        return self.target.probabilities(self.outputs(X, pick))

    def score(
        self,
        X: Any,
        y: Any,
        pick: "str | int | Candidate" = "smallest",
        *,
        scoring: Any = None,
    ) -> float:
        """The score on other data: that of the search, or what ``scoring`` asks for.

        A function that scored the search is not kept, and has to be given again.
        """
        measure = self.scoring if scoring is None else scoring_of(scoring, self.target)
        output = self.target.bounded(self.outputs(X, pick))
        share = output.new_full((len(output),), 1 / len(output), dtype=torch.float64)
        return measure.score(output, self.target.transform(y).to(output.device), share)

    def fidelity(
        self,
        teacher: Any,
        X: Any,
        y: Any = None,
        pick: "str | int | Candidate" = "smallest",
        *,
        keep: bool = False,
    ) -> Fidelity:
        """What the network has kept of a ``teacher``, on rows that are best new to both.

        By ``keep`` the result remembers it: pages and folders that are written from then on have
        it.
        """
        found = fidelity_of(self, teacher, X, y, pick)
        if keep:
            self.settings["fidelity"] = plain_fidelity(found._asdict())
        return found

    def predict_interval(
        self, X: Any, coverage: float = 0.9, pick: "str | int | Candidate" = "smallest"
    ) -> np.ndarray:
        """From and to between which values lie, as often as ``coverage``; (rows, 2) in their units.

        They are as far from the prediction as that share of the rows of the search was from what
        networks made in the same way, and not fitted to them, said. Of several outputs it is
        (rows, outputs, 2), each by itself.
        """
        return self.interval_around(self.outputs(X, pick), coverage, pick)

    def interval_around(
        self, output: Tensor, coverage: float = 0.9, pick: "str | int | Candidate" = "smallest"
    ) -> np.ndarray:
        """The interval of :meth:`predict_interval` around raw outputs of the network."""
        candidate, rows = self.pick(pick), self.settings["judged_rows"]
        return interval_around(output, candidate.residuals, rows, coverage, self.target)

    def deployed(self, pick: "str | int | Candidate" = "smallest") -> DeployedNetwork:
        """The network with its preprocessing, an ``nn.Module`` from columns to answers."""
        candidate = self.pick(pick)
        network = candidate.network
        if self.preprocessing is None or not isinstance(network, CompactNetwork):
            raise ValueError(
                "Expected a search of a table, which has preprocessing to deploy. This is one of a "
                "network: take the candidate's own network, as in to_onnx(candidate.network, path)."
            )
        return DeployedNetwork(network, self.preprocessing, self._about(candidate))

    def _about(self, candidate: Candidate) -> list[str]:
        """How good the candidate is and what it was found in, in lines."""
        scoring = self.scoring
        measure = scoring.label[0].upper() + scoring.label[1:]
        score = scoring.words(candidate.score, candidate.standard_error)
        if candidate.int8_score is not None:
            score += f", {scoring.words(candidate.int8_score)} in int8"
        lines = [f"{measure} on rows that it was not fitted to: {score}."]
        if candidate.expected is not None:
            words = scoring.words(candidate.expected)
            lines.append(f"{measure} to be expected on new rows: {words}.")
        data = f" of {self.settings['data']}" if "data" in self.settings else ""
        return [*lines, f"Found in {self.settings['rows']:,} rows{data}."]

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
        from torchsparcs.report.page import write_page  # a page is made of results, not they of it

        return write_page(self, path, folder=folder, force=force)

    def plot(self, pick: "str | int | Candidate" = "smallest", *, ax: Any = None) -> Any:
        """Draw the score to be expected against size with Matplotlib; the axes, which it returns.

        By default on a figure of its own, which a notebook shows.
        """
        from torchsparcs.report.plot import plot_front

        return plot_front(self, pick, ax)

    def _repr_html_(self) -> str:
        """What a notebook shows: the front, the networks that tell it, and the pick."""
        from torchsparcs.report.notebook import html_of

        return html_of(self)

    def __repr__(self) -> str:
        first, last = self.front[0], self.front[-1]
        words = f"score {first.score:.4f} to {last.score:.4f}"
        if first.expected is not None and last.expected is not None:
            words = f"expected score {first.expected:.4f} to {last.expected:.4f}"
        return (
            f"SearchResult({len(self.front)} candidates, {self.size.of(first):,} to "
            f"{self.size.of(last):,} {self.size.unit}, {words})"
        )


def most_cost(rule: str) -> float | None:
    """What "cost:12" lets columns cost, a number from 0 on; None of any other rule."""
    try:
        most = float(rule.removeprefix("cost:")) if rule.startswith("cost:") else -1
    except ValueError:
        return None
    return most if most >= 0 else None


def load_result(path: str | Path) -> SearchResult:
    """The result that :meth:`SearchResult.save` wrote into the folder ``path``."""
    return SearchResult(**read_run(path, Candidate, Attempt))


ChainCandidate = Candidate
"""Its name where a network is searched."""
ChainResult = SearchResult
"""Its name where a network is searched."""

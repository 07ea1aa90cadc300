"""The search of a network of one's own: trained once for each fit, then cut rung by rung."""

import contextlib
import copy
import dataclasses
import hashlib
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from torchsparcs.compact.chain import CompactChain
from torchsparcs.compact.network import CompactNetwork
from torchsparcs.cutting.extraction import extract
from torchsparcs.cutting.ladder import Rung, some_rows
from torchsparcs.cutting.model_ladder import LOOKED_AT, Fit, ModelFamily, descend
from torchsparcs.export.saving import load, save
from torchsparcs.fitting.folded import Judgement, Rows, counted_rows
from torchsparcs.judging.correction import expected_scores
from torchsparcs.parallel.executor import Executor
from torchsparcs.parallel.steps import CHECKPOINT
from torchsparcs.results.result import Attempt, Candidate
from torchsparcs.searching.clock import Clock
from torchsparcs.searching.network_data import (
    check_arrays,
    folded_rows,
    resolved_config,
    without_stopping,
)
from torchsparcs.searching.table_search import Outcome
from torchsparcs.spectral.chain import SpectralChain
from torchsparcs.spectral.network import SpectralNetwork
from torchsparcs.training.config import TrainConfig
from torchsparcs.training.data import Pair, digest
from torchsparcs.training.deadline import OutOfTime, Turn
from torchsparcs.training.history import History
from torchsparcs.training.progress import cutting_progress
from torchsparcs.training.tasks import predict
from torchsparcs.training.train import train

TUNING_SHARE = 6  # as many epochs of the training for one of a rung
LEAST_STEPS = 100  # of a fine-tuning, where the training has as many
AT_ONCE = 512  # rows that are judged together
NOTHING = 0.05  # of the loss of a constant answer is next to nothing
SHARES = {"training": 0.6, "cutting": 0.4}  # of the time
EXPECTED_RUNGS, FEWEST_LEFT = 12, 4  # of the ladder, by which its time is shared out
GIVEN_UP = 0.5  # of what the best loss gains over a constant answer: lower rungs are not worth it


class NetworkSearch:
    """A search of ``network``, a dense one or a chain, which itself stays as it is."""

    is_long = False  # its fits are few, and each may want all cores

    def __init__(
        self,
        network: Any,
        data: Rows,
        executor: Executor,
        device: torch.device,
        task: str = "auto",
        validation: Any = "auto",
        config: Any = None,
        seed: int | None = None,
        scoring: Any = "auto",
    ):
        if not isinstance(network, (SpectralNetwork, SpectralChain)):
            raise ValueError(
                "Expected a SpectralNetwork or a SpectralChain as the network. Got "
                f"{type(network).__name__}."
            )
        check_arrays(data[:2])
        self.config, self.executor = resolved_config(config, task, seed, data[1]), executor
        self.network = copy.deepcopy(network).to(device)
        extract(self.network)  # what cannot be is refused before the training
        self.folded = folded_rows(
            self.network, counted_rows(*data), self.config, validation, scoring
        )
        self.whole = self.folded
        if self.config.patience is not None and self.folded.fits > 1:
            raise ValueError(
                "Expected no patience where folds judge a network: each fit would stop at another "
                f"epoch. Got {self.config.patience}; hold out a share of the rows instead."
            )
        self.progress = False
        self.clock = Clock(executor, SHARES)
        self.judged: list[tuple[int, Judgement]] = []  # every network, by its size
        self.asked = {
            "network": repr(network),
            "weights": _digest(network),
            "config": dataclasses.asdict(self.config),
            "seed": self.config.seed,
        }

    def check_budget(self, largest: int | None) -> None:
        """A ValueError for less than one parameter."""
        if largest is not None and largest < 1:
            raise ValueError(f"Expected max_parameters of at least 1. Got {largest}.")

    @property
    def widths(self) -> list[int]:
        """Neurons or channels of each layer of the network."""
        network = self.network
        return [*(network.channels if isinstance(network, SpectralChain) else network.widths)]

    def run(self, largest: int | None) -> Outcome:
        """Train, cut and judge. Ctrl-C or the time ends the cutting with what was found so far."""
        try:
            trained, history = self._trained()
        except (KeyboardInterrupt, OutOfTime) as error:
            words = "The search was interrupted in its training; there is no network to show yet."
            if self.executor.steps.folder is not None:
                words = "What is done is kept: the same call with resume=True goes on from here."
            raise KeyboardInterrupt(words) from error
        rows = min(len(x) for (x, _), _ in map(self.folded.of_fit, range(self.folded.fits)))
        tuning = tuning_of(self.config, normalise=self._normalise, rows=rows)
        rungs: list[Rung[nn.Module, Judgement]] = []
        try:
            with cutting_progress(self.progress) as show, contextlib.suppress(OutOfTime):
                found = self._rungs([extract(network) for network in trained], tuning, largest)
                while not (rungs and self.clock.is_over):
                    left = max(FEWEST_LEFT, EXPECTED_RUNGS - len(rungs))
                    with self.clock.stage("cutting", "cutting", left):
                        rung = next(found, None)
                    if rung is None:
                        break
                    show(f"{rung.parameters:,} parameters, score {rung.judgement.score:.4f}")
                    rungs.append(rung)
        except KeyboardInterrupt as error:
            if self.executor.steps.folder is not None:
                words = "What is done is kept: the same call with resume=True goes on from here."
                raise KeyboardInterrupt(words) from error
            if not rungs:
                raise
            words = "The search was interrupted: these are the networks that it had found."
            warnings.warn(words, UserWarning, stacklevel=3)
        candidates = [self._candidate(rung) for rung in rungs]
        judged = [*zip(candidates, rungs, strict=True)]
        attempts = tuple(
            Attempt.of(self._candidate(each), each.cuts)
            for rung in rungs
            for each in (rung, *rung.passed_over)
        )
        trusted = [candidate for candidate, rung in judged if rung.judgement.is_borne_out]
        candidates = trusted or candidates
        settings = {
            "widths": self.widths,
            "network": repr(self.network),
            "tuning": dataclasses.asdict(tuning),
        }
        budget, smallest = largest, min(candidate.parameters for candidate in candidates)
        if budget is not None and smallest > budget:
            words = f"No network has at most {budget:,} parameters: the smallest has {smallest:,}."
            warnings.warn(words, UserWarning, stacklevel=3)
            budget = smallest
        sizes, judgements = zip(*self.judged, strict=True)
        return Outcome(
            candidates,
            expected_scores([judgement.parts for judgement in judgements], sizes),
            None,
            history.thinned(),
            attempts,
            settings,
            budget,
            trained[-1].cpu().eval(),
        )

    def _candidate(self, rung: Rung[nn.Module, Judgement]) -> Candidate:
        network = copy.deepcopy(rung.network)
        assert isinstance(network, (CompactNetwork, CompactChain))
        weight, row_shape = self.config.penalty_weight, tuple(self.folded.inputs.shape[1:])
        return Candidate.of(network, rung.judgement, weight, None, row_shape)  # type: ignore[arg-type]

    @property
    def _normalise(self) -> bool:
        return isinstance(self.network, SpectralChain) and self.network.normalise

    def _trained(self) -> tuple[list[SpectralNetwork | SpectralChain], History]:
        """A copy of the network for each fit, trained on its rows, and the history of the last."""
        networks: list[Any] = [copy.deepcopy(self.network) for _ in range(self.folded.fits)]
        steps, names = self.executor.steps, [f"training {fit}" for fit in range(len(networks))]
        done = {name: steps.recall(name) for name in names}
        if self._workers > 1:
            begun = {name for name in names if self._is_begun(name)}  # this process goes on with
            todo = [
                fit for fit, name in enumerate(names) if done[name] is None and name not in begun
            ]
            with self.clock.stage("training", "training", 1 + len(begun)):
                turn = self._turn(max(1, len(todo)))
                items = [
                    (networks[fit], *self.folded.of_fit(fit), self.config, turn) for fit in todo
                ]
                for place, outcome in self._as_done(_train_fit, items):
                    name = names[todo[place]]
                    done[name] = outcome
                    steps.keep(name, outcome)
        for fit, (name, network) in enumerate(zip(names, networks, strict=True)):
            outcome = done[name]
            if outcome is None:
                with self.clock.stage("training", "training", len(names) - fit):
                    history = self._train(name, network, fit)
            else:
                network.load_state_dict(outcome["state"])
                history = History(**outcome["history"])
        return networks, history

    def _turn(self, items: int) -> Turn | None:
        """The time of each of so many trainings, None where there is no deadline."""
        deadline = self.executor.deadline
        if deadline is None:
            return None
        return Turn(deadline, deadline.left / math.ceil(items / self._workers))

    @property
    def _workers(self) -> int:
        """Workers that take a fit each; processes of ``torch.distributed`` share every batch."""
        engine = self.executor.engine
        return engine.workers if engine.ranks.world == 1 and self.folded.fits > 1 else 1

    def _map(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        """``function`` of each item, every worker some of them."""
        found = dict(self._as_done(function, items))
        return [found[place] for place in range(len(items))]

    def _as_done(
        self, function: Callable[[Any], Any], items: list[Any]
    ) -> Iterator[tuple[int, Any]]:
        """(place, ``function`` of the item there), in the order they are done."""
        if self._workers == 1:
            yield from enumerate(map(function, items))
            return
        here = self.folded.inputs.device
        work = partial(_there, function, self.executor.place or here)
        for place, found in self.executor.engine.map(work, moved(items, "cpu")):
            yield place, moved(found, here)

    def _is_begun(self, name: str) -> bool:
        """Whether there is a checkpoint of the training ``name``."""
        path = self.executor.steps.path(name, CHECKPOINT)
        return path is not None and path.exists()

    def _train(self, name: str, network: nn.Module, fit: int) -> History:
        """Train in place, from a checkpoint where there is one.

        Where one fit is all there is, its history has the loss of each epoch on the rows that
        judge; with patience on rows of its own, which the fine-tunings are fitted to as well.
        """
        steps, (data, weights) = self.executor.steps, self.folded.of_fit(fit)
        checkpoint = steps.path(name, CHECKPOINT)
        validation = self.folded.judging if self.folded.fits == 1 else None
        if self.config.patience is not None:
            data, weights, validation = without_stopping(data, weights, self.config.seed)
        history = train(
            network,
            data,
            self.config,
            validation=validation,
            weights=weights,
            checkpoint=checkpoint,
            resume="auto" if checkpoint is not None else False,
            progress=self.progress,
            _deadline=self.executor.deadline,
        )
        steps.keep(name, {"state": network.state_dict(), "history": history.state_dict()})
        if checkpoint is not None and self.executor.engine.ranks.is_first:
            checkpoint.unlink(missing_ok=True)
        return history

    def _rungs(self, models: list[nn.Module], tuning: TrainConfig, largest: int | None) -> Any:
        """What the networks become on the way down, rung by rung 0.7 of the parameters.

        It ends where half of what the best gains over a constant answer is lost, and not before
        ``largest`` is reached. Where next to nothing is gained it goes on to the smallest.
        """
        like = next(models[-1].parameters())
        fits = []
        for fit in range(self.folded.fits):
            data, weights = self.folded.of_fit(fit)
            fits.append(Fit(data, some_rows(data, LOOKED_AT, tuning.seed, like), weights))
        task = str(tuning.task)
        family = ModelFamily(
            fits, self._judged, task, self._normalise, self._kept, self._map, self._turn
        )
        constant = self._constant_loss(models)
        best, is_reached = math.inf, False
        for rung in descend(family, models, tuning, constant=constant, through=largest):
            best = min(best, rung.loss)
            gain = constant - best
            is_worth_it = gain < NOTHING * constant or rung.loss < constant - (1 - GIVEN_UP) * gain
            if is_reached and not is_worth_it:
                return
            is_reached = largest is None or rung.parameters <= largest
            yield rung

    def _judged(self, models: list[nn.Module]) -> Judgement:
        """The judgement of one group of models, one for each fit."""
        outputs = [predict(model, self.folded.judging, batch_size=AT_ONCE)[0] for model in models]
        (judgement,) = self.folded.judge_outputs(torch.stack(outputs))
        judgement = self.executor.first(lambda: judgement)
        network = models[-1]
        assert isinstance(network, (CompactNetwork, CompactChain))
        self.judged.append((network.parameter_count, judgement))
        return judgement

    def _constant_loss(self, models: list[nn.Module]) -> float:
        """The loss of the mean output of the last model for every row, as the judges weigh it."""
        output, _, _ = predict(models[-1], self.folded.judging, batch_size=AT_ONCE)
        constant = output.flatten(0, -2).mean(dim=0).expand(len(models), *output.shape)
        return self.executor.first(lambda: self.folded.judge_outputs(constant)[0].loss)

    def _kept(
        self, name: str, compute: Callable[[], list[nn.Module] | None]
    ) -> list[nn.Module] | None:
        """What ``compute`` gives, kept as files of the search; done before, these are read."""
        steps, ranks = self.executor.steps, self.executor.engine.ranks
        if steps.folder is None:
            return compute()
        done = steps.recall(name)
        if done is None:
            models = compute()
            for place, model in enumerate(models or []):
                path = steps.path(f"{name} {place}", ".network")
                ranks.first(lambda: save(model, path))  # type: ignore[arg-type]  # noqa: B023
            steps.keep(name, {"networks": None if models is None else len(models)})
            return models
        if done["networks"] is None:
            return None
        paths = [steps.path(f"{name} {n}", ".network") for n in range(done["networks"])]
        device = self.folded.inputs.device
        return [ranks.first(partial(load, path)).to(device) for path in paths]


def tuning_of(config: TrainConfig, *, normalise: bool, rows: int | None = None) -> TrainConfig:
    """The config of a rung's fine-tuning after a training by ``config``: a sixth of its epochs.

    With few ``rows`` there are more, up to all of them: a rise and a fall of the learning rate want
    some steps. It has half of its learning rate and decay. With normalisation nothing bursts, and
    it has all of the learning rate, with a quarter of the decay.
    """
    steps = math.inf if rows is None else math.ceil(rows / config.batch_size)
    least = min(config.epochs, math.ceil(LEAST_STEPS / steps))
    return dataclasses.replace(
        config,
        epochs=max(1, config.epochs // TUNING_SHARE, least),
        lr=config.lr if normalise else config.lr / 2,
        weight_decay=config.transfer_weight_decay / (4 if normalise else 2),
        schedule="warm_cosine",
        patience=None,
    )


# --- fits on workers -----------------------------------------------------------------------------


def moved(value: Any, device: str | torch.device) -> Any:
    """``value`` with every tensor, and a copy of every module, in it on ``device``."""
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(item, device) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    return value


def _there(function: Callable[[Any], Any], device: str | torch.device, item: Any) -> Any:
    return moved(function(moved(item, device)), "cpu")


def _train_fit(
    item: tuple[nn.Module, Pair, Tensor | None, TrainConfig, Turn | None],
) -> dict[str, Any]:
    """Train one fit; its state and history."""
    network, data, weights, config, turn = item
    until = None if turn is None else turn.begun()
    history = train(network, data, config, weights=weights, progress=False, _deadline=until)
    state = {name: value.cpu() for name, value in network.state_dict().items()}
    return {"state": state, "history": history.state_dict()}


def _digest(network: nn.Module) -> str:
    """A hash that tells a network, its layers and its weights, from any other."""
    state = network.state_dict()
    layers = [repr(part) for part in network.modules()]
    return hashlib.sha256(repr((layers, [*state], digest(state.values()))).encode()).hexdigest()

"""What a search remembers to have kept of its teacher, without being asked."""

import warnings
from typing import Any

import torch

from torchsparcs.compact.population import CompactPopulation
from torchsparcs.results.fidelity import compared, plain_fidelity
from torchsparcs.results.result import SearchResult
from torchsparcs.searching.refitted_teachers import fitted_teacher
from torchsparcs.searching.table_search import Outcome
from torchsparcs.tables.target_values import with_targets
from torchsparcs.training.tasks import predict


def keep_fidelity(
    result: SearchResult,
    outcome: Outcome,
    teacher: Any,
    teacher_fit: Any,
    rows: tuple[Any, Any],
    validation: Any,
    seed: int,
) -> None:
    """Let the result remember what its smallest network kept of a teacher, if there was one.

    On a pair of rows that nobody fits, or else on those that judged: there the networks answer that
    were fitted to others, as they do for the score. Of teachers that are fitted it is on a pair one
    that is fitted to all ``rows``. One that cannot answer a pair is warned of: the search is done.
    """
    if teacher is None and teacher_fit is None:
        return
    if not isinstance(validation, (tuple, list)):
        _keep_of_folds(result, outcome)
        return
    X, y, _ = with_targets(*validation)
    try:
        if teacher is None:
            teacher = fitted_teacher(teacher_fit, *rows, seed)
        result.fidelity(teacher, X, y, keep=True)
    except ValueError as error:
        warnings.warn(
            f"What the networks kept of their teacher is not known on the validation rows. {error}",
            UserWarning,
            stacklevel=3,
        )


@torch.no_grad()
def _keep_of_folds(result: SearchResult, outcome: Outcome) -> None:
    """On the rows that judged, each answered by the fit of the network that has not seen it.

    What a teacher says of them the search knows: where teachers were fitted, it is that of those
    that had not seen the row.
    """
    picked = result.smallest()
    places = [i for i, one in enumerate(outcome.candidates) if one.network is picked.network]
    if outcome.fits is None or outcome.fits[0].lesson is None or not places:
        return
    folded, networks = outcome.fits[0], outcome.fits[1][places[0]]
    count, lesson = folded.judged_rows, outcome.fits[0].lesson
    judged = folded.folds.judged[:count]  # copies come last
    outputs = predict(CompactPopulation(networks).to(folded.inputs.device), folded.judging)[0]
    own = folded.unseen_outputs(outputs)[:count] / picked.temperature
    weight = folded.weights[judged].double().cpu()
    said = lesson.said if lesson.said.dim() == 2 else lesson.said[-1]  # the fit to all rows
    known = None if result.settings["teacher_is_target"] else folded.targets[judged].cpu()
    found = compared(
        result.target, own.cpu(), said[judged].cpu(), known, weight / weight.sum()
    ).kept
    nothing = dict.fromkeys(("disagreed", "said", "teacher_said", "labels"), ())
    result.settings["fidelity"] = plain_fidelity(
        {
            **found,
            **nothing,
            "teacher": result.settings["teacher"],
            "parameters": picked.parameters,
            "is_of_folds": True,
        }
    )

"""What a call of ``search`` asks for, checked: what is to run, on which rows, by which size."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch

from torchsparcs.export.quantization import check_int8
from torchsparcs.fitting.folded import FoldedData, Rows
from torchsparcs.parallel.executor import Executor
from torchsparcs.results.sizes import Sizing
from torchsparcs.searching.costs import Costs, checked_costs
from torchsparcs.searching.network_search import NetworkSearch
from torchsparcs.searching.paper_search import PaperSearch
from torchsparcs.searching.preparing import prepared
from torchsparcs.searching.refitted_teachers import check_teachers, lesson_of
from torchsparcs.searching.strategies import SearchConfig
from torchsparcs.searching.table_search import TableSearch
from torchsparcs.tables.kinds import Kinds
from torchsparcs.tables.preprocessing import Preprocessing
from torchsparcs.tables.streams import RowStream
from torchsparcs.training.devices import resolve_device


@dataclass(frozen=True)
class TableOptions:
    """The options that only a search of a table takes, as :func:`torchsparcs.search` has them."""

    widths: Sequence[int] | None = None
    penalty_weights: Sequence[float] | str = "auto"
    activation: str = "relu"
    max_bytes: int | str | None = None
    size: str = "parameters"
    chip: str | None = None
    int8: bool = False
    class_weight: Any = None
    calibrate: bool = True
    kinds: Kinds | None = None
    costs: Costs | None = None
    teacher: Any = None
    teacher_fit: Any = None
    extra_rows: Any = None

    @property
    def given(self) -> list[str]:
        """The names of those that are not left at their defaults."""
        return [f.name for f in fields(self) if not _is_same(getattr(self, f.name), f.default)]


class Plan(NamedTuple):
    """A search that is ready to run.

    Attributes:
        seen: how many rows there were.
        rows: X and y of a table, as they were given.
        is_taught: a teacher's answers are the target.
    """

    run: TableSearch | NetworkSearch
    sizing: Sizing
    device: torch.device
    seen: int
    preprocessing: Preprocessing | None = None
    rows: tuple[Any, Any] | None = None
    costs: Costs | None = None
    is_taught: bool = False


def planned_network(
    network: Any,
    rows: Rows,
    options: TableOptions,
    sizing: Sizing,
    executor: Executor,
    *,
    device: str | torch.device,
    task: str,
    validation: Any,
    config: Any,
    seed: int | None,
    scoring: Any,
) -> Plan:
    """A search of a network of somebody's own; a ValueError for options of tables."""
    if options.given:
        named = ", ".join(options.given)
        raise ValueError(f"Expected no {named} where a network is given: it is for tables.")
    on = resolve_device(device)
    run = NetworkSearch(network, rows, executor, on, task, validation, config, seed, scoring)
    return Plan(run, sizing, on, len(rows[0]))


def planned_table(
    rows: Rows,
    options: TableOptions,
    sizing: Sizing,
    executor: Executor,
    *,
    device: str | torch.device,
    task: str,
    validation: Any,
    config: Any,
    seed: int,
    scoring: Any,
) -> Plan:
    """A search of a table: its columns made numbers, its rows dealt into folds, teachers asked."""
    config = SearchConfig() if config is None else config
    if not isinstance(config, SearchConfig):
        raise ValueError(f"Expected a SearchConfig. Got {type(config).__name__}.")
    if not isinstance(options.activation, str):
        raise ValueError(f"Expected an activation by its name. Got {options.activation!r}.")
    check_teachers(options.teacher, options.teacher_fit, is_paper=config.paper)
    if options.int8:
        check_int8(options.activation)
    X, y, sample_weight, groups = rows
    preprocessing, own, by_class, seen = prepared(
        X,
        y,
        task,
        sample_weight,
        options.class_weight,
        groups,
        seed,
        options.kinds,
        options.teacher,
    )
    on = resolve_device(device, len(own[0]))
    costs = options.costs
    costs = None if costs is None else checked_costs(costs, preprocessing.inputs.names)
    folded = FoldedData.of(
        preprocessing,
        *own,
        validation=validation,
        seed=seed,
        scoring=scoring,
        by_class=by_class,
        calibrate=options.calibrate,
    )
    lesson = lesson_of(
        options.teacher,
        options.teacher_fit,
        folded,
        preprocessing,
        own[:2],
        options.extra_rows,
        seed,
    )
    run = (PaperSearch if config.paper else TableSearch)(
        folded.taught(lesson).to(on),
        preprocessing.target.outputs,
        executor,
        hidden=options.widths,
        penalty_weights=options.penalty_weights,
        activation=options.activation,
        config=config,
        seed=seed,
    )
    run.sizing = replace(sizing, preprocessing=preprocessing).on_rows(run.folded)
    run.sizing.check_reach()
    is_taught = y is None and not isinstance(X, RowStream)
    return Plan(run, run.sizing, on, seen, preprocessing, own[:2], costs, is_taught)


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (str, bool)) and value == default)

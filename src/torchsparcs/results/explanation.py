"""What columns are worth to a network, and what they do to its answers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from torchsparcs.compact.network import CompactNetwork
from torchsparcs.results.relevance import input_eigenvalues
from torchsparcs.tables.columns import Table, check_known
from torchsparcs.tables.dates import DAY, START
from torchsparcs.tables.encoding import REST, Column
from torchsparcs.tables.preprocessing import Inputs
from torchsparcs.tables.target import Target
from torchsparcs.tables.target_values import with_targets
from torchsparcs.training.tasks import evaluation_mode, resolve_task

if TYPE_CHECKING:
    from torchsparcs.results.result import Candidate

REACH = 2.0  # scales on either side of the mean, of a curve without rows
ENDS = (0.01, 0.99)  # quantiles between which a curve with rows goes
UNSEEN = "\0"  # a text that no column has


class Explanations:
    """Why a result says what it says, column by column of the table."""

    if TYPE_CHECKING:
        front: tuple["Candidate", ...]
        settings: dict[str, Any]

        @property
        def inputs(self) -> Inputs: ...
        @property
        def target(self) -> Target: ...
        def pick(self, rule: "str | int | Candidate" = "smallest") -> "Candidate": ...

    def importance(
        self,
        X: Any,
        y: Any,
        pick: "str | int | Candidate" = "smallest",
        *,
        repeats: int = 5,
        seed: int = 0,
        keep: bool = False,
    ) -> pd.DataFrame:
        """Columns of a table, from the one that is worth most.

        What a column is worth is how much the score (accuracy or R²) of the picked network falls on
        these rows where the entries of that column are shuffled among them. Take rows that the
        search has not seen.

        Args:
            keep: the result remembers what each is worth; pages and folders that are written from
                then on have it.

        Returns:
            a row for each column that was not left out, in columns ``worth``, the mean of
            ``repeats`` shuffles; ``standard_error`` of that mean; and ``parameters`` of the
            smallest network on the front that reads the column, missing where none does.
        """
        if repeats < 2:
            raise ValueError(f"Expected at least two repeats. Got {repeats!r}.")
        X, y, _ = with_targets(X, y)
        network = self._network(pick)
        inputs, target = self.inputs.transform(X, network.reads), self.target.transform(y)
        task, draw = resolve_task(self.target.task), np.random.default_rng(seed)

        def score(given: Tensor) -> float:
            return float(task.score(self.target.bounded(_output(network, given)), target))

        whole = score(inputs)
        read = {column.name for column in self.inputs.columns_read(network.reads)}
        rows = []
        for name, places in self._places().items():
            falls = np.zeros(repeats)
            if name in read:
                for repeat in range(repeats):
                    mixed, order = inputs.clone(), torch.from_numpy(draw.permutation(len(inputs)))
                    mixed[:, places] = inputs[order][:, places]
                    falls[repeat] = whole - score(mixed)
            rows.append(
                [name, falls.mean(), falls.std(ddof=1) / repeats**0.5, self._smallest(name)]
            )
        columns = ["column", "worth", "standard_error", "parameters"]
        table = pd.DataFrame(rows, columns=columns).set_index("column")
        if keep:
            self.settings["worth"] = table["worth"].to_dict()
        return table.sort_values(["worth", "parameters"], ascending=[False, True])

    def input_relevance(self, X: Any, y: Any, *, seed: int = 0, keep: bool = False) -> pd.DataFrame:
        """Columns of a table from the most relevant, by trained input eigenvalues.

        A network of its own is trained on these rows, in which each input has an eigenvalue in
        front of eigenvectors that stay as they were drawn; how large it is left tells how much the
        input is used (arXiv 2406.01183). It looks at the table, not at a network of the front:
        :meth:`importance` does that.

        Args:
            keep: the result remembers it; pages and folders that are written from then on have it.

        Returns:
            a row for each column that was not left out, in the column ``relevance``: the norm of
            the |eigenvalues| of its inputs, that of the most relevant column being one.
        """
        X, y, _ = with_targets(X, y)
        target = self.target
        sizes = input_eigenvalues(
            self.inputs.transform(X), target.transform(y), target.task, target.outputs, seed
        )
        norms = {name: float(sizes[places].norm()) for name, places in self._places().items()}
        top = max(norms.values(), default=0.0) or 1.0
        relevance = {name: norm / top for name, norm in norms.items()}
        if keep:
            self.settings["relevance"] = relevance
        table = pd.DataFrame({"relevance": relevance.values()}, index=[*relevance])
        table.index.name = "column"
        return table.sort_values("relevance", ascending=False, kind="stable")

    def explain(self, row: Any, pick: "str | int | Candidate" = "smallest") -> pd.DataFrame:
        """What each column that the picked network reads does to its answer for one row.

        The contribution of a column is the answer less the answer without it: with its inputs at
        their means, of text at the shares of its texts. Contributions need
        not add up, as columns act together. An answer is a value in its own units, or the
        probability of a class; of two classes that of the second.

        Args:
            row: a DataFrame or array of one row, a Series or a dict.

        Returns:
            a row for each column, from the one that does most: its ``value``, and what it
            contributes to each answer, called as the target or the class is.
        """
        if isinstance(row, (Mapping, pd.Series)):
            row = pd.DataFrame([dict(row)])
        table, network = Table.of(row), self._network(pick)
        if table.rows != 1:
            raise ValueError(f"Expected one row. Got {table.rows:,}.")
        columns, places = self.inputs.columns_read(network.reads), self._places()
        inputs = self.inputs.transform(row, network.reads).repeat(len(columns) + 1, 1)
        for index, column in enumerate(columns):
            inputs[index, places[column.name]] = 0.0
        answers = self._answers(_output(network, inputs))
        contributions = answers.iloc[-1] - answers.iloc[:-1]
        names = table.names if table.is_named else self.inputs.names
        values = [table.column(names.index(column.name))[0] for column in columns]
        contributions.insert(0, "value", pd.Series(values, dtype=object))
        contributions.index = pd.Index([column.name for column in columns], name="column")
        size = contributions.iloc[:, 1:].abs().sum(axis=1)
        return contributions.loc[size.sort_values(ascending=False, kind="stable").index]

    def response(
        self,
        column: str,
        pick: "str | int | Candidate" = "smallest",
        *,
        X: Any = None,
        points: int = 41,
    ) -> pd.DataFrame:
        """The answers of the picked network along the values of a column.

        All other columns are at their means or, with rows ``X``, as they are in each of them, and
        the answers are averaged. Numbers and dates go two scales to either side of their mean, or
        from the first to the last hundredth of those in ``X``; of text every category is there.

        Returns:
            ``points`` rows, or one for each category, in columns ``value`` and the answers, as
            :meth:`explain` has them.
        """
        network, places = self._network(pick), self._places()
        check_known("a column", [column], [*places])
        if points < 2:
            raise ValueError(f"Expected at least two points. Got {points!r}.")
        own = places[column]
        found = next(each for each in self.inputs.columns if each.name == column)
        labels, entries = self._values(found, X, points)
        table = pd.DataFrame({column: pd.Series(entries, dtype=object)})
        along = self.inputs.transform(table, own)
        if X is None:
            answers = self._answers(_output(network, along))
        else:
            rows, means = self.inputs.transform(X, network.reads), []
            for point in along:
                rows[:, own] = point[own]
                means.append(self._answers(_output(network, rows)).mean())
            answers = pd.DataFrame(means)
        answers.insert(0, "value", labels)
        return answers

    def _network(self, pick: "str | int | Candidate") -> CompactNetwork:
        network = self.pick(pick).network
        if not isinstance(network, CompactNetwork):
            raise ValueError("Expected a search of a table. This is one of a network.")
        return network

    def _places(self) -> dict[str, list[int]]:
        """The places of each column's inputs among those of the network, of those it has."""
        places: dict[str, list[int]] = {}
        for column in self.inputs.columns:
            start = sum(map(len, places.values()))
            if count := len(column.encoded_names):
                places[column.name] = [*range(start, start + count)]
        return places

    def _smallest(self, name: str) -> float:
        """The parameters of the smallest network on the front that reads a column."""
        reading = (
            found.parameters
            for found in self.front
            if isinstance(found.network, CompactNetwork)
            and name in {each.name for each in self.inputs.columns_read(found.network.reads)}
        )
        return next(iter(reading), np.nan)

    def _answers(self, output: Tensor) -> pd.DataFrame:
        """Values in their own units, or probabilities; of two classes that of the second."""
        target = self.target
        if target.classes is None:
            values = target.predict(output).reshape(len(output), -1)
            return pd.DataFrame(values, columns=[*target.names])
        shares = pd.DataFrame(target.probabilities(output), columns=[*target.classes])
        return shares.iloc[:, 1:] if target.task == "binary" else shares

    def _values(self, column: Column, X: Any, points: int) -> tuple[list[Any], list[Any]]:
        """The values of a curve, as they are called and as entries of the column."""
        if column.kind in ("text", "ordered"):
            labels: list[Any] = [*(column.categories or ())]
            entries = [*labels]
            if column.has_rest:
                labels.append(REST)
                entries.append(column.others[0] if column.others else UNSEEN)
            if column.kind == "text" and column.gaps == "told":
                labels.append(None)
                entries.append(None)
            return labels, entries
        place = self._places()[column.name][0]
        mean, scale = self.inputs.mean[place], self.inputs.scale[place]
        low, high = mean - REACH * scale, mean + REACH * scale
        if X is not None:
            table = Table.of(X)
            names = table.names if table.is_named else self.inputs.names
            numbers = column.encode(table, names.index(column.name)).values[:, 0]
            low, high = np.nanquantile(numbers, ENDS)
        numbers = np.linspace(low, high, points)
        if column.kind == "date":
            dates = [START + days * DAY for days in numbers.tolist()]
            return dates, dates
        return numbers.tolist(), numbers.tolist()


def _output(network: CompactNetwork, inputs: Tensor) -> Tensor:
    with evaluation_mode(network):
        return network(inputs.to(next(network.parameters()).device)).cpu()

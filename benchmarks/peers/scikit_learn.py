"""scikit-learn's MLPClassifier and MLPRegressor over a grid of widths, their settings chosen.

Eight widths of one hidden layer and five of two are fitted to four fifths of the training rows and
judged by the rest, with six settings each: three penalties alpha and two learning rates, the
default and ten times it. The best setting of each width is then fitted to all rows. All else is
scikit-learn's default (Adam, ReLU), but for 500 iterations at most instead of 200. The linear model
is LogisticRegression or Ridge, with five penalties.

To save time, there are three settings from a thousand rows on (two_spirals, digits,
teacher_student) and the default of 200 iterations above a thousand; on MNIST there are five widths
of one hidden layer, two settings, ten iterations, and two penalties and 50 iterations for the
linear model.
"""

import warnings
from itertools import product
from pathlib import Path
from typing import NamedTuple

from contest import Found, Outcome, Task
from running import main
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

HIDDEN = [
    (),
    *((width,) for width in (1, 2, 4, 8, 16, 32, 64, 128)),
    *((width, width) for width in (4, 8, 16, 32, 64)),
]
HIDDEN_MNIST = [(), (4,), (8,), (16,), (32,), (128,)]


class Setting(NamedTuple):
    alpha: float
    lr: float = 1e-3  # of a network


LINEAR = [Setting(alpha) for alpha in (0.1, 10.0, 1e-3, 1.0, 100.0)]
FEW_ROWS = [Setting(*pair) for pair in product((1e-4, 1.0, 10.0), (1e-2, 1e-3))]
MANY_ROWS = [Setting(1e-4, 1e-2), Setting(1.0, 1e-2), Setting(1e-4, 1e-3)]
MNIST = [Setting(1e-4, 1e-2), Setting(1e-4, 1e-3)]


def settings_for(task: Task, hidden: tuple[int, ...]) -> list[Setting]:
    if not hidden:
        return LINEAR[:2] if task.is_large else LINEAR
    return MNIST if task.is_large else FEW_ROWS if len(task.x) < 1000 else MANY_ROWS


def iterations_for(task: Task) -> int:
    if task.quick:
        return 5
    return 10 if task.is_large else 500 if len(task.x) <= 1000 else 200


def model_of(task: Task, hidden: tuple[int, ...], setting: Setting, seed: int) -> object:
    if not hidden and task.kind == "regression":
        return Ridge(alpha=setting.alpha)
    if not hidden:
        return LogisticRegression(C=1 / setting.alpha, max_iter=50 if task.is_large else 1000)
    kind = MLPRegressor if task.kind == "regression" else MLPClassifier
    return kind(
        hidden_layer_sizes=hidden,
        alpha=setting.alpha,
        learning_rate_init=setting.lr,
        max_iter=iterations_for(task),
        random_state=seed,
    )


def parameters_of(model: object) -> int:
    if hasattr(model, "coefs_"):
        return sum(w.size for w in model.coefs_) + sum(b.size for b in model.intercepts_)
    return model.coef_.size + model.intercept_.size


def onnx_writer(model: object, features: int) -> object:
    def write(path: Path) -> None:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType

        example = [("x", FloatTensorType([None, features]))]
        path.write_bytes(to_onnx(model, initial_types=example).SerializeToString())

    return write


def scikit_learn(task: Task, seed: int) -> Outcome:
    warnings.simplefilter("ignore", ConvergenceWarning)
    x, y, x_held, y_held = task.held_out(seed)
    hidden = HIDDEN_MNIST if task.is_large else HIDDEN
    found, trainings = [], 0
    for shape in hidden[:3] if task.quick else hidden:

        def judged(setting: Setting, shape: tuple[int, ...] = shape) -> float:
            model = model_of(task, shape, setting, seed).fit(x, y)
            return task.score(y_held, model.predict(x_held))

        scores = {setting: judged(setting) for setting in settings_for(task, shape)}
        best = max(scores, key=scores.__getitem__)
        model = model_of(task, shape, best, seed).fit(task.x, task.y)
        trainings += len(scores) + 1
        found.append(
            Found(
                task.chain(shape),
                shape,
                False,
                parameters_of(model),
                scores[best],
                model.predict,
                onnx_writer(model, task.features),
            )
        )
    return Outcome(found, trainings, trainings)


if __name__ == "__main__":
    main("scikit-learn")

"""scikit-learn's MLPClassifier and MLPRegressor over a grid of widths, the l2 penalty chosen.

Every width of one and two hidden layers, and three penalties alpha for each, are fitted to four
fifths of the training rows and judged by the rest; the best penalty of each width is then fitted to
all of them. All else is scikit-learn's default (Adam, 1e-3, ReLU), but for more iterations at most.
The linear model is LogisticRegression or Ridge.
"""

import warnings
from pathlib import Path

from contest import Found, Outcome, Task, main
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
ALPHAS = (1e-4, 1e-2, 1.0)
LINEAR_ALPHAS = (1e-3, 1e-1, 1.0, 10.0, 100.0)


def model_of(task: Task, hidden: tuple[int, ...], alpha: float, seed: int) -> object:
    if not hidden and task.kind == "regression":
        return Ridge(alpha=alpha)
    if not hidden:
        return LogisticRegression(C=1 / alpha, max_iter=5000)
    kind = MLPRegressor if task.kind == "regression" else MLPClassifier
    iterations = 5 if task.quick else (40 if len(task.x) > 20_000 else 500)
    return kind(hidden_layer_sizes=hidden, alpha=alpha, max_iter=iterations, random_state=seed)


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
    hidden = [(), *((w,) for w in WIDTHS), *((w, w) for w in WIDTHS if w > 1)]
    hidden = hidden[:3] if task.quick else hidden
    found, trainings = [], 0
    for shape in hidden:

        def judged(alpha: float, shape: tuple[int, ...] = shape) -> float:
            model = model_of(task, shape, alpha, seed).fit(x, y)
            return task.score(y_held, model.predict(x_held))

        alphas = ALPHAS if shape else LINEAR_ALPHAS
        scores = {alpha: judged(alpha) for alpha in alphas}
        alpha = max(scores, key=scores.__getitem__)
        model = model_of(task, shape, alpha, seed).fit(task.x, task.y)
        trainings += len(alphas) + 1
        found.append(
            Found(
                " → ".join(map(str, [task.features, *shape, task.outputs])),
                parameters_of(model),
                scores[alpha],
                model.predict,
                onnx_writer(model, task.features),
            )
        )
    return Outcome(found, trainings, trainings)


if __name__ == "__main__":
    main("scikit-learn", scikit_learn, "scikit-learn", "skl2onnx")

"""neat-python: topologies and weights evolved, no gradients (NEAT).

The configuration is that of the package's XOR example (150 genomes, its mutation rates, species and
stagnation), with more activations to choose from, because outputs have to leave (0, 1), at the rate
of its double-pendulum example. The time, 30 processor seconds (90 on MNIST), is halved between two
of the documented starts: `full`, all inputs connected to all outputs, and `fs_neat_nohidden`, one
input; with over 1,000 connections `full` is left out, since a crossover takes the square of their
number in Python steps. Fitness is minus the cross-entropy, one output for each class, or minus the
squared error, on four fifths of the training rows, all rows of a genome at once: the package's
activation functions take numbers, so the same formulas are registered for arrays. NEAT has no way
to refit a topology to all rows.

Of every size seen the fittest genome is kept, and handed in where it is fitter than all smaller
ones; it expects its score on the other fifth. Parameters are the enabled connections that reach an
output and the biases of the nodes on the way. The package exports JSON only.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import neat
import numpy as np
from contest import Array, Found, Outcome, Task
from neat.nn import FeedForwardNetwork
from running import main
from scipy.special import log_softmax

SECONDS, SECONDS_MNIST = 30.0, 90.0  # of the processor for a task and seed
STARTS = ("full", "fs_neat_nohidden")

CONFIG = """
[NEAT]
fitness_criterion = max
fitness_threshold = 0
no_fitness_termination = True
pop_size = {genomes}
reset_on_extinction = True
[DefaultGenome]
num_inputs = {inputs}
num_outputs = {outputs}
num_hidden = 0
initial_connection = {start}
feed_forward = True
activation_default = tanh
activation_options = tanh sigmoid relu identity
activation_mutate_rate = 0.1
aggregation_default = sum
aggregation_options = sum
aggregation_mutate_rate = 0.0
bias_init_mean = 0.0
bias_init_stdev = 1.0
bias_init_type = gaussian
bias_max_value = 30.0
bias_min_value = -30.0
bias_mutate_power = 0.5
bias_mutate_rate = 0.7
bias_replace_rate = 0.1
response_init_mean = 1.0
response_init_stdev = 0.0
response_init_type = gaussian
response_max_value = 30.0
response_min_value = -30.0
response_mutate_power = 0.0
response_mutate_rate = 0.0
response_replace_rate = 0.0
weight_init_mean = 0.0
weight_init_stdev = 1.0
weight_init_type = gaussian
weight_max_value = 30
weight_min_value = -30
weight_mutate_power = 0.5
weight_mutate_rate = 0.8
weight_replace_rate = 0.1
compatibility_disjoint_coefficient = 1.0
compatibility_weight_coefficient = 0.5
conn_add_prob = 0.5
conn_delete_prob = 0.5
node_add_prob = 0.2
node_delete_prob = 0.2
single_structural_mutation = False
structural_mutation_surer = default
enabled_default = True
enabled_mutate_rate = 0.01
enabled_rate_to_true_add = 0.0
enabled_rate_to_false_add = 0.0
[DefaultSpeciesSet]
compatibility_threshold = 3.0
[DefaultStagnation]
species_fitness_func = max
max_stagnation = 20
species_elitism = 2
[DefaultReproduction]
elitism = 2
survival_threshold = 0.2
min_species_size = 2
"""


def configured(**values: object) -> neat.Config:
    parts = neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config"
        path.write_text(CONFIG.format(**values))
        config = neat.Config(*parts, neat.DefaultStagnation, path)
    for name, function in {
        "tanh": lambda z: np.tanh(np.clip(2.5 * z, -60, 60)),
        "sigmoid": lambda z: 1 / (1 + np.exp(-np.clip(5 * z, -60, 60))),
        "relu": lambda z: np.maximum(z, 0),
    }.items():
        config.genome_config.add_activation(name, function)
    return config


def columns_of(x: Array) -> list[Array]:
    return list(np.ascontiguousarray(x.T, dtype=np.float64))


def outputs_of(network: FeedForwardNetwork, columns: list[Array]) -> Array:
    put_out = network.activate(columns)
    return np.stack([np.broadcast_to(one, len(columns[0])) for one in put_out], axis=1)


def fitness_to(task: Task, y: Array) -> Callable[[Array], float]:
    def fitness(outputs: Array) -> float:
        if task.kind == "regression":
            value = -np.mean((outputs - y.reshape(outputs.shape)) ** 2)
        else:
            value = np.mean(log_softmax(outputs, axis=1)[np.arange(len(y)), y])
        return float(value) if np.isfinite(value) else -1e9

    return fitness


def size_of(network: FeedForwardNetwork) -> int:
    return sum(1 + len(links) for *_, links in network.node_evals)


def layers_of(network: FeedForwardNetwork) -> tuple[tuple[int, ...], bool]:
    """Hidden nodes by their longest way from the inputs, and whether a link jumps over a layer."""
    depths = dict.fromkeys(network.input_nodes, 0)
    jumps = False
    outputs = set(network.output_nodes)
    for node, *_, links in network.node_evals:
        sources = [depths[source] for source, _ in links]
        depths[node] = 1 + max(sources, default=0)
        jumps |= any(depth < depths[node] - 1 for depth in sources)
    hidden = Counter(depths[node] for node, *_ in network.node_evals if node not in outputs)
    last = 1 + max(hidden, default=0)  # an output that comes earlier jumps, or feeds a hidden node
    jumps |= any(depths[node] != last for node in outputs if node in depths)
    return tuple(hidden[depth] for depth in sorted(hidden)), jumps


def neat_python(task: Task, seed: int) -> Outcome:
    np.seterr(over="ignore", invalid="ignore")  # a genome may overflow; it is then unfit
    x, y, x_held, y_held = task.held_out(seed)
    columns, fitness = columns_of(x), fitness_to(task, y)
    outputs = 2 if task.kind == "binary" else task.outputs
    starts = STARTS[0 if task.features * outputs <= 1000 else 1 :]
    seconds = 4.0 if task.quick else SECONDS_MNIST if task.is_large else SECONDS
    fittest: dict[int, tuple[float, FeedForwardNetwork]] = {}
    seen, remarks = 0, []

    def judge(genomes: list[tuple[int, neat.DefaultGenome]], config: neat.Config) -> None:
        nonlocal seen
        for _, genome in genomes:
            network = FeedForwardNetwork.create(genome, config)
            genome.fitness = fitness(outputs_of(network, columns))
            size = size_of(network)
            if size not in fittest or genome.fitness > fittest[size][0]:
                fittest[size] = genome.fitness, network
        seen += len(genomes)

    for start in starts:
        genomes = 20 if task.quick else 150
        config = configured(inputs=task.features, outputs=outputs, start=start, genomes=genomes)
        population = neat.Population(config, seed=seed)
        ends = time.process_time() + seconds / len(starts)
        while time.process_time() < ends:
            population.run(judge, 1)
        remarks.append(f"{population.generation} generations from {start}")
    found, fitter = [], -np.inf
    for size, (value, network) in sorted(fittest.items()):
        if value > fitter:
            fitter = value
            hidden, jumps = layers_of(network)
            name = f"{task.features} → {outputs}, {sum(hidden)} hidden nodes in between"

            def predict(rows: Array, network: FeedForwardNetwork = network) -> Array:
                return task.predictions(outputs_of(network, columns_of(rows)))

            expected = task.score(y_held, predict(x_held))
            found.append(Found(name, hidden, jumps, size, expected, predict))
    return Outcome(found, len(starts), seen, ", ".join(remarks))


if __name__ == "__main__":
    main("neat-python")

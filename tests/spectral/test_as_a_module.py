"""SpectralNetwork does what PyTorch users do with any module."""

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch
from networks import randomised
from torch import nn

from torchsparcs import SpectralNetwork

UPDATES = ["feedforward", "iterated"]
X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def network(update="feedforward", **options) -> SpectralNetwork:
    return randomised(SpectralNetwork([3, 8, 5, 2], update=update, **options), 0)


@pytest.mark.parametrize("update", UPDATES)
def test_compile_fullgraph(update):
    net = network(update)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), net(X))
    compiled(X).sum().backward()
    gradients = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(X).sum().backward()
    for got, parameter in zip(gradients, net.parameters(), strict=True):
        torch.testing.assert_close(got, parameter.grad)


def test_a_compiled_network_chooses_by_its_batch_size(monkeypatch):
    """Taking compilation for an export would fold as for large batches, always."""
    net = network()
    monkeypatch.setattr(net._anchors, "_rows", {"cpu": [(1, (1, 2)), (5, "large")]})
    torch.compile(net, fullgraph=True, backend="aot_eager")(X[:4])
    assert net._anchors.for_large_batches() == "large"


def test_compile_with_inductor():
    net = network()
    torch.testing.assert_close(torch.compile(net, fullgraph=True)(X), net(X))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("update", UPDATES)
def test_export_with_a_dynamic_batch(update, strict):
    # 20-200-200-20 folds at some batch sizes and not at others: the graph must serve all
    net = randomised(SpectralNetwork([20, 200, 200, 20], update=update), 0)
    shapes = ({0: torch.export.Dim("batch", min=1, max=4096)},)
    program = torch.export.export(net, (torch.randn(8, 20),), dynamic_shapes=shapes, strict=strict)
    for batch in (1, 3, 500):
        x = torch.randn(batch, 20)
        torch.testing.assert_close(program.module()(x), net(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(update, dtype):
    net = network(update)
    with torch.autocast("cpu", dtype=dtype):
        out = net(X)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), net(X), rtol=0.05, atol=0.05)
    out.sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in net.parameters())


@pytest.mark.parametrize("update", UPDATES)
def test_functional_call_and_vmap_over_an_ensemble(update):
    members = [network(update) for _ in range(3)]
    for seed, member in enumerate(members):
        randomised(member, seed)
    parameters, buffers = torch.func.stack_module_state(members)

    def call(parameters, buffers):
        return torch.func.functional_call(members[0], (parameters, buffers), (X,))

    expected = torch.stack([member(X) for member in members])
    torch.testing.assert_close(torch.vmap(call)(parameters, buffers), expected)


def test_per_sample_gradients():
    net = network()
    parameters = dict(net.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(net, parameters, (x,)).square().sum()

    per_sample = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, X)
    whole = torch.func.grad(loss)(parameters, X)
    for name in parameters:
        torch.testing.assert_close(per_sample[name].sum(0), whole[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_equal_and_independent(update, copied):
    net = network(update)
    twin = copied(net)
    assert torch.equal(twin(X), net(X))
    nn.init.zeros_(twin.output_eigenvalues)
    assert not torch.equal(twin.output_eigenvalues, net.output_eigenvalues)


@pytest.mark.parametrize("train_input", [True, False])
def test_state_dict_round_trip_is_strict(train_input):
    net = network(train_input_eigenvalues=train_input)
    twin = SpectralNetwork([3, 8, 5, 2], train_input_eigenvalues=train_input)
    twin.load_state_dict(net.state_dict(), strict=True)
    assert torch.equal(twin(X), net(X))
    with pytest.raises(RuntimeError, match="size mismatch"):
        SpectralNetwork([3, 8, 6, 2], train_input_eigenvalues=train_input).load_state_dict(
            net.state_dict()
        )


@pytest.mark.parametrize("update", UPDATES)
def test_float64_and_device_moves(update):
    net = network(update, device="cpu", dtype=torch.float64)
    assert net(X.double()).dtype == torch.float64
    assert net.float()(X).dtype == torch.float32
    meta = SpectralNetwork([3, 8, 2], update=update, device="meta")
    assert meta(X.to("meta")).shape == (6, 2)


@gpu
@pytest.mark.parametrize("update", UPDATES)
def test_cuda(update):
    net = network(update)
    expected = net(X)
    torch.testing.assert_close(net.cuda()(X.cuda()).cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("widths", [[3, 2], [3, 8, 2], [3, 8, 5, 2]])
@pytest.mark.parametrize("train_input", [True, False])
def test_every_parameter_takes_part(update, widths, train_input):
    """An unused parameter (gradient None) is what makes DistributedDataParallel complain."""
    net = SpectralNetwork(widths, update=update, train_input_eigenvalues=train_input)
    net(X).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


DDP = """
import torch, torch.distributed as dist
from torchsparcs import SpectralNetwork
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
net = torch.nn.parallel.DistributedDataParallel(SpectralNetwork([3, 8, 5, 2]))
for _ in range(3):  # an unused parameter would raise on the second step
    net(torch.randn(4, 3)).sum().backward()
dist.destroy_process_group()
print("trained")
"""


def test_distributed_data_parallel():
    run = subprocess.run([sys.executable, "-c", DDP], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "trained", run.stderr


def test_import_is_light():
    code = "import sys, torchsparcs; print(*[m for m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True
    )
    heavy = {"sklearn", "pandas", "matplotlib", "plotly", "onnx", "onnxruntime", "ray", "typer"}
    assert not heavy & set(run.stdout.split())

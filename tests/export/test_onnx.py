"""Exported files compute what the network does, anywhere, at any batch size."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from networks import randomised
from torch import nn

from torchsparcs import CompactNetwork, SpectralNetwork, extract, to_onnx
from torchsparcs.export.writing import to_torch_export
from torchsparcs.spectral.activations import ACTIVATIONS
from torchsparcs.training.nests import called, tensors_in

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

BATCHES = (1, 7, 100)


def compact(widths=(3, 6, 4, 2), activation="relu") -> CompactNetwork:
    return extract(randomised(SpectralNetwork(list(widths), activation=activation), 0, dead=0.3))


def session_of(path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def check(path, network, width, batches=BATCHES):
    session = session_of(path)
    for batch in batches:
        x = torch.randn(batch, width, generator=torch.Generator().manual_seed(batch))
        (output,) = session.run(None, {"input": x.numpy()})
        assert output.dtype == np.float32
        torch.testing.assert_close(
            torch.from_numpy(output), network(x).detach(), rtol=1e-5, atol=1e-5
        )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    network, path = compact(), tmp_path_factory.mktemp("onnx") / "network.onnx"
    to_onnx(network, path)
    return network, path


def test_a_compact_network(exported):
    network, path = exported
    assert len(network.connections) > 3
    check(path, network, 3)


@pytest.mark.parametrize(
    ("widths", "activation"),
    [((4, 3), "relu"), *(((3, 8, 5, 2), name) for name in ACTIVATIONS), ((3, 6, 1), torch.sin)],
)
def test_other_architectures_and_activations(tmp_path, widths, activation):
    network = compact(widths, activation)
    to_onnx(network, str(tmp_path / "network.onnx"))
    check(tmp_path / "network.onnx", network, widths[0])


def test_rows_of_rows(tmp_path):
    network, rows = compact(), torch.randn(4, 5, 3)
    to_onnx(network, tmp_path / "network.onnx", example=rows)
    (got,) = session_of(tmp_path / "network.onnx").run(None, {"input": rows.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), network(rows).detach(), rtol=1e-5, atol=1e-5)


def test_the_interface_has_names_and_a_free_batch_axis(exported):
    session = session_of(exported[1])
    ((given,), (got,)) = session.get_inputs(), session.get_outputs()
    assert (given.name, got.name) == ("input", "output")
    assert (given.shape[1], got.shape[1]) == (3, 2)
    assert isinstance(given.shape[0], str)
    assert given.shape[0] == got.shape[0]


def test_the_file_is_alone_in_its_folder(exported):
    assert list(exported[1].parent.iterdir()) == [exported[1]]


def test_metadata_travel_in_the_file(tmp_path):
    metadata = {"columns": '["age", "città"]', "task": "binary"}
    to_onnx(compact((3, 2)), tmp_path / "network.onnx", metadata=metadata)
    assert session_of(tmp_path / "network.onnx").get_modelmeta().custom_metadata_map == metadata


RUN = """
import sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
x = numpy.arange(12, dtype=numpy.float32).reshape(4, 3) / 12
(y,) = session.run(["output"], {"input": x})
assert "torch" not in sys.modules and "torchsparcs" not in sys.modules
print(*y.ravel())
"""


def test_it_runs_where_only_onnxruntime_is(exported):
    network, path = exported
    run = subprocess.run(
        [sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    x = torch.arange(12.0).reshape(4, 3) / 12
    output = torch.tensor([float(value) for value in run.stdout.split()]).reshape(4, 2)
    torch.testing.assert_close(output, network(x).detach(), rtol=1e-5, atol=1e-5)


def test_any_module_with_an_example(tmp_path):
    """In evaluation mode, whatever mode it is in; and that mode is left alone."""
    model = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.9), compact())
    to_onnx(model, tmp_path / "model.onnx", example=torch.randn(4, 5))
    assert model.training
    assert model[1].training
    check(tmp_path / "model.onnx", model.eval(), 5)


def test_a_program_for_pytorch_alone(tmp_path):
    model = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.9), compact())
    to_torch_export(compact(), tmp_path / "network.pt2")
    to_torch_export(model, str(tmp_path / "model.pt2"), example=torch.randn(4, 5))
    assert model[1].training
    for name, network, width in (("network", compact(), 3), ("model", model.eval(), 5)):
        program = torch.export.load(tmp_path / f"{name}.pt2").module()
        for batch in BATCHES:
            x = torch.randn(batch, width, generator=torch.Generator().manual_seed(batch))
            torch.testing.assert_close(program(x), network(x))
    with pytest.raises(ValueError, match=r"an example input to export a Linear\. Got none"):
        to_torch_export(nn.Linear(3, 2), tmp_path / "linear.pt2")


@pytest.mark.parametrize(
    ("module", "name"),
    [(nn.Linear(3, 2), "Linear"), (nn.Sequential(compact()), "Sequential")],
    ids=["Linear", "Sequential"],
)
def test_a_module_without_example_is_refused(tmp_path, module, name):
    with pytest.raises(ValueError, match=f"an example input to export a {name}. Got none"):
        to_onnx(module, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_where_the_folder_is_a_file(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match="file"):
        to_onnx(compact((3, 2)), tmp_path / "file" / "network.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_a_model_that_computes_something_else_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "network.onnx"
    path.write_text("old")
    monkeypatch.setattr(
        onnxruntime.InferenceSession,
        "run",
        lambda session, names, feeds: [np.full((len(feeds["input"]), 2), 1e3, dtype=np.float32)],
    )
    with pytest.raises(RuntimeError, match=r"computes something else.*Nothing was written"):
        to_onnx(compact((3, 2)), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'torchsparcs\[onnx\]'"):
        to_onnx(compact(), tmp_path / "network.onnx")


def test_importing_the_library_imports_no_onnx():
    code = "import sys, torchsparcs; print(*(m for m in sys.modules if m.startswith('onnx')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_the_file_has_nothing_but_the_network(exported):
    """No notes on where the code lies, which are most of what the exporter writes."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(exported[1])
    assert not model.doc_string
    for part in (model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        assert not part.metadata_props
        assert not part.doc_string
    assert b".py" not in exported[1].read_bytes()
    onnx.checker.check_model(exported[1], full_check=True)


def test_its_weights_can_be_made_bytes(tmp_path):
    """onnxruntime's dynamic quantisation takes the file; its answers are close by."""
    from onnxruntime.quantization import quantize_dynamic

    network = compact((8, 16, 4))
    to_onnx(network, tmp_path / "network.onnx")
    quantize_dynamic(tmp_path / "network.onnx", tmp_path / "bytes.onnx")
    kinds = {
        node.op_type
        for node in pytest.importorskip("onnx").load(tmp_path / "bytes.onnx").graph.node
    }
    assert "MatMulInteger" in kinds
    x = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    (got,) = session_of(tmp_path / "bytes.onnx").run(None, {"input": x.numpy()})
    expected = network(x).detach()
    assert (torch.from_numpy(got) - expected).abs().max() < 0.1 * expected.abs().max()


class Attention(nn.Module):
    """With a bias that is learnt, and made in the call, as in T5 and Swin."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.out, self.near = nn.Linear(8, 8), nn.Parameter(torch.randn(1, 2, 5, 5))

    def forward(self, x):
        heads = (part(x).view(*x.shape[:-1], 2, 4).transpose(1, 2) for part in self.parts)
        bias = self.near + x.mean()
        heard = nn.functional.scaled_dot_product_attention(*heads, attn_mask=bias)
        return self.out(heard.transpose(1, 2).reshape(*x.shape[:-1], -1))


def test_attention_with_a_bias(tmp_path):
    model, x = Attention().eval(), torch.randn(3, 5, 8)
    to_onnx(model, tmp_path / "model.onnx", example=torch.randn(2, 5, 8))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (answer,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(answer), model(x))


class Several(nn.Module):
    """Two inputs, the second by its name alone; several outputs, some inside others."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(2, 4)

    def forward(self, x, *, other):
        hidden = self.first(x) + self.second(other)
        return {"logits": hidden, "inner": (hidden.relu(), hidden.tanh()), "cache": None}


class Pair(nn.Bilinear):
    def forward(self, x, y):
        return super().forward(x, y), x.sum(dim=1) > 0


@pytest.mark.parametrize(
    ("model", "example", "names", "outputs"),
    [
        (
            Several(),
            {"x": torch.randn(4, 3), "other": torch.randn(4, 2)},
            ["x", "other"],
            ["logits", "inner_0", "inner_1"],
        ),
        (
            Pair(3, 2, 4),
            (torch.randn(4, 3), torch.randn(4, 2)),
            ["input_0", "input_1"],
            ["output_0", "output_1"],
        ),
    ],
)
def test_several_inputs_and_outputs(tmp_path, model, example, names, outputs):
    path = tmp_path / "model.onnx"
    to_onnx(model, path, example=example)
    session = session_of(path)
    assert [one.name for one in session.get_inputs()] == names
    assert [one.name for one in session.get_outputs()] == outputs
    rows = [torch.randn(9, 3), torch.randn(9, 2)]
    got = session.run(None, {n: row.numpy() for n, row in zip(names, rows, strict=True)})
    given = called(model, dict(zip(names, rows, strict=True)) if names[0] == "x" else tuple(rows))
    for one, expected in zip(got, tensors_in(given), strict=True):
        torch.testing.assert_close(torch.from_numpy(one), expected.detach(), rtol=1e-5, atol=1e-5)


def test_an_output_that_has_the_name_of_an_input(tmp_path):
    class Same(nn.Linear):
        def forward(self, x):
            return {"x": super().forward(x)}

    with pytest.raises(ValueError, match=r"names of their own.*Got 'x' and 'x'"):
        to_onnx(Same(3, 4), tmp_path / "model.onnx", example={"x": torch.randn(2, 3)})
    assert not (tmp_path / "model.onnx").exists()

"""A compact network that reads some of its inputs: the others are taken and do not matter."""

import copy

import pytest
import torch

from torchsparcs import CompactNetwork, SpectralNetwork, extract, load, save, to_onnx
from torchsparcs.compact.direct import parameter_count

X = torch.randn(20, 5, generator=torch.Generator().manual_seed(1))
ALL = [(t, s) for t in range(1, 4) for s in range(t)]


def network(reads=(1, 4), widths=(5, 3, 2), connections=((1, 0), (2, 0), (2, 1)), **options):
    torch.manual_seed(0)
    return CompactNetwork(list(widths), connections, reads=reads, **options)


def test_only_the_inputs_it_reads_matter():
    net, x = network(), X.clone()
    linear = net.block(1, 0)
    hidden = torch.relu(x[:, [1, 4]] @ linear.weight.T + linear.bias)
    skip = net.block(2, 0)
    by_hand = x[:, [1, 4]] @ skip.weight.T + skip.bias + hidden @ net.block(2, 1).weight.T
    torch.testing.assert_close(net(x), by_hand)
    x[:, [0, 2, 3]] = torch.nan
    assert torch.equal(net(x), net(X))
    x[:, 4] += 1
    assert not torch.equal(net(x), net(X))
    assert torch.equal(net(X.reshape(4, 5, 5)), net(X).reshape(4, 5, 2))
    with pytest.raises(ValueError, match="last dimension is 5"):
        net(X[:, [1, 4]])


def test_size_and_words_count_what_is_read():
    net = network()
    assert net.inputs_read == 2
    assert net.widths == (5, 3, 2) == net.size.widths
    assert (
        net.size.parameters == (2 * 3 + 3) + (2 * 2 + 2) + 3 * 2 == parameter_count(net.to_direct())
    )
    assert net.size.macs == 2 * 3 + 2 * 2 + 3 * 2
    assert net.architecture == "2 of 5 → 3 → 2, skip 2 → 2"
    assert net.describe() == "2 of 5 → 3 → 2, skip 2 → 2: 21 parameters, 16 multiply-adds"
    deep = network((0,), (5, 3, 4, 2), ALL)
    assert deep.architecture == "1 of 5 → 3 → 4 → 2, skip 1 → 4, 1 → 2, 3 → 2"
    assert network(None).architecture == "5 → 3 → 2, skip 5 → 2"


@pytest.mark.parametrize("reads", [(1, 4), (0,), (0, 1, 2, 3, 4), None])
def test_direct_space_and_back(reads):
    net = network(reads, (5, 3, 4, 2), ALL, dtype=torch.float64)
    direct = net.to_direct()
    unread = [index for index in range(5) if index not in (reads or range(5))]
    assert (direct.weights[:, unread] == 0).all()
    back = CompactNetwork.from_direct(direct, maximal=None, dtype=torch.float64)
    assert back.reads == (None if len(reads or range(5)) == 5 else reads)
    assert torch.equal(back(X.double()), net(X.double()))


def test_extraction_drops_an_input_that_nothing_hears():
    spectral = SpectralNetwork([5, 4, 2])
    for eigenvalues in spectral.hidden_eigenvalues:
        torch.nn.init.constant_(eigenvalues, 0.5)
    with torch.no_grad():
        spectral.transfers[0][:, [0, 3]] = 0
    small = extract(spectral)
    assert small.reads == (1, 2, 4)
    assert small.size.parameters == 3 * 4 + 4 + 3 * 2 + 2 + 4 * 2
    torch.testing.assert_close(small(X), spectral(X), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        spectral.transfers[0].zero_()
    assert extract(spectral).inputs_read == 1  # a constant still takes inputs


def test_files(tmp_path):
    net = network()
    save(net, tmp_path / "net.safetensors")
    back = load(tmp_path / "net.safetensors")
    assert back.reads == net.reads == (1, 4)
    assert back.describe() == net.describe()
    assert torch.equal(back(X), net(X))


def test_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = network()
    to_onnx(net, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    (output,) = session.run(None, {"input": X.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), net(X).detach(), rtol=1e-5, atol=1e-5)


def test_copies_and_states():
    net = network()
    twin = copy.deepcopy(net).double()
    torch.testing.assert_close(twin(X.double()).float(), net(X))
    assert not any("read" in name for name in net.state_dict())
    other = network(device="meta")
    other.load_state_dict(net.state_dict(), assign=True)
    assert torch.equal(other(X), net(X))


@pytest.mark.parametrize("reads", [[4, 1], [1, 1], [-1, 2], [2, 5], []])
def test_bad_reads(reads):
    with pytest.raises(ValueError, match=r"ascending indices of 5 inputs, at least one\. Got \["):
        network(reads)

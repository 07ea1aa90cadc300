"""Files: what is saved comes back bit by bit, and nothing but a ValueError comes of a bad file."""

import json
import os
import pickle
import time
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import randomised
from safetensors import safe_open
from safetensors.torch import save as safetensors_bytes
from torch import nn
from torch.nn.utils import prune

from torchsparcs import (
    CompactChain,
    CompactNetwork,
    Pooled,
    SpectralChain,
    SpectralCNN,
    SpectralNetwork,
    extract,
    load,
    save,
)
from torchsparcs.spectral.activations import ACTIVATIONS

DTYPES = [torch.float32, torch.float64, torch.bfloat16]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([*ACTIVATIONS, "iterated", "SpectralNetwork"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def spectral(widths=(3, 5, 2), **options) -> SpectralNetwork:
    return randomised(SpectralNetwork(list(widths), **options), 0)


def compact(widths=(3, 6, 4, 2), **options) -> CompactNetwork:
    return extract(randomised(SpectralNetwork(list(widths), **options), 0, dead=0.3))


def stirred(chain: SpectralChain) -> SpectralChain:
    """With random numbers everywhere, and some silent channels."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in chain.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        for values in chain.hidden_eigenvalues:
            values[::2] = 0
    return chain


def cnn(**options) -> SpectralCNN:
    return stirred(SpectralCNN([2, 3, 4, 2], kernel_size=5, strides=[2, 1], **options))


def maps() -> dict[str, tuple[list[nn.Module], torch.Tensor]]:
    """Of every kind that a file can describe, and inputs for them."""
    conv = nn.Conv2d(4, 6, 3, stride=2, dilation=2, groups=2, padding="valid", bias=False)
    images = [nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular", bias=False), conv]
    up = [nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1, bias=False), Pooled(4, 3)]
    cubes = [nn.Conv3d(2, 3, 2, bias=False), nn.ConvTranspose3d(3, 2, 2, bias=False)]
    series = [nn.Conv1d(2, 3, 3, padding="same", bias=False), Pooled(3, 4, 1), matrix(4, 2)]
    words = [nn.Embedding(9, 4, padding_idx=0), matrix(4, 3), matrix(3, 2)]
    draw = torch.Generator().manual_seed(0)
    return {
        "images": (images + up, torch.randn(2, 3, 9, 9, generator=draw)),
        "cubes": (cubes, torch.randn(2, 2, 3, 4, 3, generator=draw)),
        "series": (series, torch.randn(2, 2, 7, generator=draw)),
        "words": (words, torch.randint(9, (2, 5), generator=draw)),
    }


def matrix(n_in: int, n_out: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, bias=False)


def chain(name: str = "images", **options) -> SpectralChain:
    return stirred(SpectralChain(maps()[name][0], **options))


def compact_chain(name: str = "images", **options) -> CompactChain:
    return extract(chain(name, **options))


def written(network, path: Path) -> bytes:
    save(network, path)
    return path.read_bytes()


def header_length(content: bytes) -> int:
    return 8 + int.from_bytes(content[:8], "little")


def header_of(network, folder: Path) -> dict:
    content = written(network, folder / "whole")
    tensors = json.loads(content[8 : header_length(content)])
    return json.loads(tensors["__metadata__"]["torchsparcs"])


@cache
def described(name: str, folder: Path) -> tuple[nn.Module, str]:
    """A chain and its header."""
    network = {"cnn": cnn, "compact": compact_chain}.get(name, lambda: chain(name))()
    return network, json.dumps(header_of(network, folder))


def forged(network, path: Path, header, tensors=None) -> Path:
    """A file with the tensors of ``network`` and another header."""
    text = header if isinstance(header, str) else json.dumps(header)
    tensors = dict(network.state_dict()) if tensors is None else tensors
    path.write_bytes(safetensors_bytes(tensors, metadata={"torchsparcs": text}))
    return path


def changed(header: dict, **changes) -> dict:
    top = {name: value for name, value in changes.items() if name in header}
    options = {name: value for name, value in changes.items() if name not in header}
    return {**header, "options": {**header["options"], **options}, **top}


def is_alike(loaded: nn.Module, network: nn.Module) -> bool:
    shapes, expected = (
        {name: tensor.shape for name, tensor in module.state_dict().items()}
        for module in (loaded, network)
    )
    return shapes == expected and bool(repr(loaded))


class TestRoundTrip:
    @pytest.mark.parametrize(
        ("bias", "train_input", "update", "dtype"),
        [*product([True, False], [True, False], ["feedforward", "iterated"], DTYPES)],
    )
    def test_of_every_spectral_network(self, tmp_path, bias, train_input, update, dtype):
        network = spectral(
            (3, 5, 4, 2),
            bias=bias,
            train_input_eigenvalues=train_input,
            update=update,
            dtype=dtype,
        )
        save(network, tmp_path / "network")
        loaded = load(tmp_path / "network")
        assert torch.equal(loaded(X.to(dtype)), network(X.to(dtype)))
        assert repr(loaded) == repr(network)
        assert {p.dtype for p in loaded.parameters()} == {dtype}
        for name in ("bias", "train_input_eigenvalues", "update", "widths"):
            assert getattr(loaded, name) == getattr(network, name)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("bias", [True, False])
    def test_of_compact_networks(self, tmp_path, bias, dtype):
        network = compact(bias=bias, dtype=dtype)
        save(network, tmp_path / "network")
        loaded = load(tmp_path / "network")
        assert torch.equal(loaded(X.to(dtype)), network(X.to(dtype)))
        assert repr(loaded) == repr(network)
        assert {p.dtype for p in loaded.parameters()} == {dtype}
        for name in ("widths", "connections", "biased", "maximal", "size"):
            assert getattr(loaded, name) == getattr(network, name)

    @pytest.mark.parametrize("name", ACTIVATIONS)
    def test_of_every_named_activation(self, tmp_path, name):
        for network in (spectral(activation=name), compact(activation=name)):
            save(network, tmp_path / name)
            loaded = load(tmp_path / name)
            assert loaded.activation_name == name
            assert torch.equal(loaded(X), network(X))

    def test_of_a_constant_and_of_a_network_without_hidden_layer(self, tmp_path):
        constant = SpectralNetwork([3, 4, 2])
        nn.init.zeros_(constant.output_eigenvalues)
        for network in (spectral((3, 2)), extract(spectral((3, 2))), extract(constant)):
            save(network, tmp_path / "network")
            assert torch.equal(load(tmp_path / "network")(X), network(X))

    @pytest.mark.parametrize("train_input", [True, False])
    def test_a_loaded_network_can_be_trained_and_saved_again(self, tmp_path, train_input):
        for network in (spectral(train_input_eigenvalues=train_input), compact()):
            save(network, tmp_path / "network")
            loaded = load(tmp_path / "network")
            before = loaded(X).detach()
            assert all(p.is_leaf and p.requires_grad for p in loaded.parameters())
            assert [name for name, _ in loaded.named_parameters()] == [
                name for name, _ in network.named_parameters()
            ]
            optimizer = torch.optim.SGD(loaded.parameters(), lr=1e-4)
            loaded(X).square().mean().backward()
            assert all(p.grad is not None for p in loaded.parameters())
            optimizer.step()
            assert loaded(X).square().mean() < before.square().mean()
            save(loaded, tmp_path / "again")
            assert torch.equal(load(tmp_path / "again")(X), loaded(X))

    def test_extracting_after_loading(self, tmp_path):
        network = randomised(SpectralNetwork([3, 8, 2]), 0, dead=0.5)
        save(network, tmp_path / "network")
        assert torch.equal(extract(load(tmp_path / "network"))(X), extract(network)(X))

    def test_a_path_may_be_a_string_in_a_new_folder(self, tmp_path):
        path = str(tmp_path / "new" / "folder" / "network.safetensors")
        save(spectral(), path)
        assert torch.equal(load(path)(X), spectral()(X))


class TestRoundTripOfChains:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("name", maps())
    def test_of_every_map(self, tmp_path, name, bias, dtype):
        network, x = chain(name, bias=bias, activation="gelu").to(dtype), maps()[name][1]
        x = x.to(dtype) if x.is_floating_point() else x
        found = [network] if name == "words" else [network, extract(network)]
        for one in found:
            save(one, tmp_path / "network")
            loaded = load(tmp_path / "network")
            assert type(loaded) is type(one)
            assert repr(loaded) == repr(one)
            assert torch.equal(loaded(x), one(x))
            assert {p.dtype for p in loaded.parameters()} == {dtype}
            assert all(p.is_leaf and p.requires_grad for p in loaded.parameters())
            layers = ("maps", "layers")[isinstance(one, CompactChain)]
            assert repr(getattr(loaded, layers)) == repr(getattr(one, layers))

    def test_of_a_cnn(self, tmp_path):
        network, x = cnn(activation="tanh", bias=False), torch.randn(2, 2, 9, 9)
        save(network, tmp_path / "network")
        loaded = load(tmp_path / "network")
        assert type(loaded) is SpectralCNN
        assert repr(loaded.maps) == repr(network.maps)
        assert loaded.biases is None
        assert not loaded.training
        assert torch.equal(loaded(x), network.eval()(x))
        assert torch.equal(extract(loaded)(x), extract(network)(x))

    def test_of_a_normalised_one(self, tmp_path):
        network, x = cnn(normalise=True), 3 * torch.randn(2, 2, 9, 9) + 1
        network(x)
        save(network, tmp_path / "network")
        assert torch.equal(load(tmp_path / "network").eval()(x), network.eval()(x))

    def test_of_one_from_before_there_was_normalisation(self, tmp_path):
        network, path, x = cnn(normalise=False), tmp_path / "network", torch.randn(2, 2, 9, 9)
        save(network, path)
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["torchsparcs"])
        del header["options"]["normalise"]
        content = safetensors_bytes(
            network.state_dict(), metadata={"torchsparcs": json.dumps(header)}
        )
        path.write_bytes(content)
        assert torch.equal(load(path)(x), network(x))

    def test_of_a_constant(self, tmp_path):
        network = SpectralCNN([2, 3, 4, 2])
        nn.init.zeros_(network.output_eigenvalues)
        save(extract(network), tmp_path / "network")
        assert not load(tmp_path / "network")(torch.randn(2, 2, 9, 9)).any()


class Strange(nn.Linear):
    """A stranger's map, though of a known kind."""


def shared() -> SpectralChain:
    again = matrix(3, 3)
    return SpectralChain([again, matrix(3, 3), again])


def reparametrised() -> SpectralChain:
    network = SpectralChain([matrix(3, 3), matrix(3, 2)])
    prune.l1_unstructured(network.maps[1], "weight", amount=1)
    return network


class TestSaving:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: SpectralChain([matrix(3, 4), Strange(4, 2, bias=False)]), "Got a Strange"),
            (lambda: CompactChain([Strange(3, 2)], [0]), "among Conv1d, .*, Embedding. Got a Str"),
            (lambda: SpectralChain([nn.EmbeddingBag(4, 3), matrix(3, 2)]), "Got a EmbeddingBag"),
            (shared, "numbers of their own. Got shared ones"),
            (reparametrised, "Linear that makes its weight from weight_orig, weight_mask"),
            (lambda: cnn(activation=torch.relu), "activation given by its name.*Got relu"),
        ],
    )
    def test_what_is_no_data_is_refused(self, tmp_path, make, message):
        with pytest.raises(ValueError, match=rf"{message}.*\. Write its state_dict\(\) instead"):
            save(make(), tmp_path / "network")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "make",
        [
            lambda activation: SpectralNetwork([3, 5, 2], activation=activation),
            lambda activation: CompactNetwork([3, 2], [(1, 0)], activation=activation),
        ],
        ids=["spectral", "compact"],
    )
    @pytest.mark.parametrize(
        ("activation", "name"), [(torch.cos, "cos"), (nn.PReLU(), "PReLU"), (torch.relu, "relu")]
    )
    def test_functions_are_not_written_to_files(self, tmp_path, make, activation, name):
        network = make(activation)
        with pytest.raises(ValueError, match=rf"activation given by its name.*Got {name}"):
            save(network, tmp_path / "network")
        assert not list(tmp_path.iterdir())

    def test_what_is_no_module_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match=r"Expected a network or a model. Got list"):
            save([], tmp_path / "network")

    @pytest.mark.parametrize("broken", ["fsync", "replace"])
    def test_a_failing_write_leaves_the_old_file(self, tmp_path, monkeypatch, broken):
        path = tmp_path / "network"
        before = written(spectral(), path)

        def fail(*args):
            raise OSError("No space left on device")

        monkeypatch.setattr(*((os, "fsync") if broken == "fsync" else (Path, "replace")), fail)
        with pytest.raises(OSError, match="No space left"):
            save(compact(), path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["network"]

    def test_a_folder_in_the_way_leaves_nothing_behind(self, tmp_path):
        (tmp_path / "network").mkdir()
        with pytest.raises(OSError, match="network"):
            save(spectral(), tmp_path / "network")
        assert [file.name for file in tmp_path.iterdir()] == ["network"]

    def test_the_file_is_safetensors_and_no_pickle(self, tmp_path):
        content = written(spectral(), tmp_path / "network")
        tensors = json.loads(content[8 : header_length(content)])
        assert set(tensors) == {"__metadata__", *spectral().state_dict()}
        assert tensors["output_eigenvalues"]["dtype"] == "F32"
        assert list(tensors["__metadata__"]) == ["torchsparcs"]


class Opens:
    """A pickle that opens a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


class TestBadFiles:
    @pytest.mark.parametrize("make", [spectral, compact])
    def test_truncated_anywhere(self, tmp_path, make):
        content = written(make(), tmp_path / "whole")
        path = tmp_path / "part"
        for length in {*range(0, len(content), 11), *range(16), len(content) - 1}:
            path.write_bytes(content[:length])
            with pytest.raises(ValueError, match="part is truncated, corrupted or foreign"):
                load(path)

    def test_something_appended(self, tmp_path):
        content = written(spectral(), tmp_path / "network")
        (tmp_path / "network").write_bytes(content + b"\0")
        with pytest.raises(ValueError, match="truncated, corrupted or foreign"):
            load(tmp_path / "network")

    @pytest.mark.parametrize("make", [spectral, compact])
    @settings(max_examples=200, deadline=None)
    @given(data=st.data())
    def test_any_bytes_of_the_header_changed(self, tmp_path_factory, make, data):
        path = tmp_path_factory.getbasetemp() / "flipped"
        content = bytearray(written(make(), path))
        places = st.integers(0, header_length(content) - 1)
        for place, byte in data.draw(
            st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)
        ):
            content[place] = byte
        path.write_bytes(content)
        try:
            loaded = load(path)
        except ValueError:
            return
        assert is_alike(loaded, make())

    @pytest.mark.parametrize("make", [spectral, compact])
    @settings(max_examples=100, deadline=None)
    @given(data=st.data())
    def test_any_value_of_the_header_changed(self, tmp_path_factory, make, data):
        folder = tmp_path_factory.getbasetemp()
        header = header_of(make(), folder)
        name = data.draw(st.sampled_from([*header, *header["options"]]))
        path = forged(make(), folder / "forged", changed(header, **{name: data.draw(JSON)}))
        try:
            loaded = load(path)
        except ValueError:
            return
        assert is_alike(loaded, make())

    @settings(max_examples=40, deadline=None)
    @given(data=st.data())
    def test_any_value_of_a_chain_changed(self, tmp_path_factory, data):
        folder = tmp_path_factory.getbasetemp()
        network, text = described(data.draw(st.sampled_from(["cnn", "compact", *maps()])), folder)
        header = json.loads(text)
        options = header["options"]
        layers = options.get("maps") or options.get("layers") or []
        part = data.draw(st.sampled_from([header, options, *layers]))
        part[data.draw(st.sampled_from([*part]))] = data.draw(JSON)
        try:
            loaded = load(forged(network, folder / "forged", header))
        except ValueError:
            return
        assert is_alike(loaded, network)

    def test_foreign_safetensors(self, tmp_path):
        path = tmp_path / "foreign"
        path.write_bytes(safetensors_bytes({"weight": torch.zeros(2, 2)}))
        with pytest.raises(ValueError, match=r"saved by torchsparcs.*foreign has no 'torchsparcs'"):
            load(path)
        path.write_bytes(safetensors_bytes({"weight": torch.zeros(2)}, metadata={"format": "pt"}))
        with pytest.raises(ValueError, match="has no 'torchsparcs' header"):
            load(path)

    def test_pickles_are_not_opened(self, tmp_path):
        path, marker = tmp_path / "pickle", tmp_path / "marker"
        path.write_bytes(pickle.dumps(Opens(marker)))
        with pytest.raises(ValueError, match="truncated, corrupted or foreign"):
            load(path)
        torch.save(Opens(marker), path)
        with pytest.raises(ValueError, match="truncated, corrupted or foreign"):
            load(path)
        assert not marker.exists()

    @pytest.mark.parametrize("name", ["nothing", "folder"])
    def test_a_missing_file_is_named(self, tmp_path, name):
        (tmp_path / "folder").mkdir()
        with pytest.raises(FileNotFoundError, match=f"There is none at .*{name}"):
            load(tmp_path / name)

    @pytest.mark.parametrize("version", [2, 10**6, float("inf")])
    def test_a_newer_format(self, tmp_path, version):
        header = changed(header_of(spectral(), tmp_path), format=version)
        with pytest.raises(ValueError, match=r"format 1 or older.*newer torchsparcs|in JSON"):
            load(forged(spectral(), tmp_path / "newer", header))

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", "3", '{"format": null}', "[" * 100_000])
    def test_a_header_that_is_no_header(self, tmp_path, text):
        with pytest.raises(ValueError, match="a 'torchsparcs' header in JSON"):
            load(forged(spectral(), tmp_path / "bad", text))

    @pytest.mark.parametrize("kind", ["Pipeline", None, ["SpectralNetwork"]])
    def test_an_unknown_kind(self, tmp_path, kind):
        path = forged(
            spectral(), tmp_path / "odd", changed(header_of(spectral(), tmp_path), kind=kind)
        )
        with pytest.raises(ValueError, match="among SpectralNetwork, CompactNetwork"):
            load(path)

    @pytest.mark.parametrize(
        ("make", "changes", "message"),
        [
            (spectral, {"widths": [3, 5, 3]}, "size mismatch"),
            (spectral, {"widths": [3, 2]}, "Unexpected key"),
            (spectral, {"widths": [3, 0, 2]}, "positive integers"),
            (spectral, {"widths": "352"}, "widths is '352', not list"),
            (spectral, {"widths": [10**12, 10**12]}, ""),
            (spectral, {"widths": [10**30] * 3}, ""),
            (spectral, {"widths": [10**6] * 3}, "size mismatch"),
            (spectral, {"widths": [1] * 10**6}, "more layers than tensors"),
            (spectral, {"bias": False}, "size mismatch"),
            (spectral, {"train_input_eigenvalues": True}, "Missing key"),
            (spectral, {"update": "loop"}, "feedforward, iterated"),
            (spectral, {"activation": "swish"}, "relu, tanh"),
            (spectral, {"activation": 3}, "activation is 3, not str"),
            (spectral, {"kind": "CompactNetwork"}, "connections"),
            (spectral, {"options": {}}, "widths"),
            (spectral, {"options": None}, ""),
            (compact, {"widths": [3, 5, 3, 2]}, "size mismatch"),
            (compact, {"widths": [10**12] * 4}, ""),
            (compact, {"widths": [1] * 10**6}, "more layers than tensors"),
            (compact, {"widths": [0, 0, 0, 0]}, "positive integers"),
            (compact, {"connections": [[1, 0]]}, "every layer to be connected"),
            (compact, {"connections": [[1, 7]]}, "source < target"),
            (compact, {"connections": [[1, 0], [2, 1], [3, 2]]}, "Unexpected key"),
            (compact, {"biased": []}, "Unexpected key"),
            (compact, {"maximal": [1, 2]}, ""),
            (compact, {"maximal": [1, 2, 3]}, ""),
            (compact, {"maximal": [[3, 2], "many", "more"]}, ""),
            (compact, {"kind": "SpectralNetwork"}, "bias"),
            (cnn, {"channels": [2, 3, 5, 2]}, "size mismatch"),
            (cnn, {"channels": [1] * 10**6}, "more layers than tensors"),
            (cnn, {"kernel_size": 3}, "size mismatch"),
            (cnn, {"kernel_size": 4}, "an odd kernel_size"),
            (cnn, {"strides": [1]}, "2 strides"),
            (cnn, {"strides": [0, 1]}, "2 strides"),
            (cnn, {"kind": "SpectralChain"}, "maps"),
            (chain, {"kind": "CompactChain"}, "layers"),
            (chain, {"maps": []}, "more tensors than layers"),
            (chain, {"maps": [{}] * 10**5}, "more layers than tensors"),
            (chain, {"maps": [{"kind": "Sequential"}] * 4}, "a layer is a 'Sequential'"),
            (chain, {"maps": ["Conv2d"] * 4}, ""),
            (chain, {"bias": False}, "Unexpected key"),
            (compact_chain, {"active": [0, 0, 0]}, "active channels of each layer"),
            (compact_chain, {"active": [10**9, 0, 0, 0]}, "active channels of each layer"),
            (compact_chain, {"active": [1.0, 0, 0, 0]}, r"active\[0\] is 1.0, not int"),
            (compact_chain, {"kind": "CompactNetwork"}, "widths"),
        ],
    )
    def test_a_header_that_does_not_fit_its_tensors(self, tmp_path, make, changes, message):
        path = forged(make(), tmp_path / "odd", changed(header_of(make(), tmp_path), **changes))
        started = time.perf_counter()
        with pytest.raises(ValueError, match=rf"(?s)header of .*odd does not fit.*{message}"):
            load(path)
        assert time.perf_counter() - started < 2

    @pytest.mark.parametrize(
        ("layer", "changes", "message"),
        [
            (0, {"kind": "Conv1d"}, r"kernel_size of a Conv1d is \[3, 3\]"),
            (0, {"kernel_size": [3, 3, 3]}, "kernel_size of a Conv2d is"),
            (0, {"kernel_size": [5, 5]}, "size mismatch"),
            (0, {"kernel_size": [10**6, 10**6]}, "size mismatch"),
            (0, {"stride": [0, 1]}, r"stride of a Conv2d is \[0, 1\]"),
            (0, {"stride": [1.5, 1]}, "stride of a Conv2d is"),
            (0, {"stride": 1}, "stride of a Conv2d is 1"),
            (0, {"padding": "all"}, "padding of a Conv2d is 'all'"),
            (0, {"padding": [-1, 0]}, "padding of a Conv2d is"),
            (0, {"padding_mode": "odd"}, "padding_mode"),
            (0, {"in_channels": 10**30}, "in_channels of a Conv2d is"),
            (0, {"in_channels": True}, "in_channels of a Conv2d is True"),
            (0, {"out_channels": 5}, "map 1 to take what map 0 gives"),
            (0, {"bias": True}, "without a bias"),
            (1, {"groups": 4}, "divisible by groups"),
            (1, {"groups": 1}, "size mismatch"),
            (2, {"output_padding": [1, 1, 1]}, "output_padding of a ConvTranspose2d is"),
            (3, {"positions": 10**9}, "positions of a Pooled is"),
            (3, {"positions": 1}, "map 3 to take what map 2 gives"),
        ],
    )
    def test_layers_that_do_not_fit_their_tensors(self, tmp_path, layer, changes, message):
        header = header_of(chain(), tmp_path)
        header["options"]["maps"][layer] |= changes
        path = forged(chain(), tmp_path / "odd", header)
        with pytest.raises(ValueError, match=rf"(?s)header of .*odd does not fit.*{message}"):
            load(path)

    @pytest.mark.parametrize(
        ("make", "kind", "error"),
        [
            (spectral, SpectralNetwork, AttributeError("no such attribute")),
            (compact, CompactNetwork, TypeError("no such argument")),
            (cnn, SpectralCNN, KeyError("no such key")),
            (chain, SpectralChain, RuntimeError("no such tensor")),
            (compact_chain, CompactChain, IndexError("no such layer")),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
    )
    def test_a_mistake_of_ours_is_no_damage(self, tmp_path, monkeypatch, make, kind, error):
        save(make(), tmp_path / "network")

        def fail(*arguments, **options):
            raise error

        monkeypatch.setattr(kind, "__init__", fail)
        with pytest.raises(type(error), match="no such"):
            load(tmp_path / "network")

    def test_a_row_of_an_embedding_that_is_not_there(self, tmp_path):
        header = header_of(chain("words"), tmp_path)
        header["options"]["maps"][0]["padding_idx"] = 9
        with pytest.raises(ValueError, match=r"(?s)does not fit.*Padding_idx"):
            load(forged(chain("words"), tmp_path / "odd", header))

    def test_many_layers_are_refused_quickly(self, tmp_path):
        """As many tensors as layers, all of them empty."""
        header = changed(header_of(spectral(), tmp_path), widths=[1] * 60)
        tensors = {f"transfers.{k}": torch.zeros(0) for k in range(60)}
        path = forged(spectral(), tmp_path / "deep", header, tensors)
        started = time.perf_counter()
        with pytest.raises(ValueError, match=r"does not fit its tensors|are corrupted"):
            load(path)
        assert time.perf_counter() - started < 2

    def test_a_flipped_bit_among_the_numbers(self, tmp_path):
        path = tmp_path / "flipped"
        save(spectral(), path)
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"numbers that were saved\. Those in .*are corrupted"):
            load(path)

    def test_integers_for_weights(self, tmp_path):
        network = spectral()
        tensors = {name: tensor.int() for name, tensor in network.state_dict().items()}
        with pytest.raises(ValueError, match="are corrupted"):
            load(forged(network, tmp_path / "whole", header_of(network, tmp_path), tensors))

"""Which models of others can have their feed-forward blocks found, kept, cut and exported?

Small models with random weights, from the configs of ``transformers`` (where installed) and of our
own: each block gets eigenvalues where it stands (is the answer the same?), half of its units are
silenced, it is extracted (is the answer that of the silenced one?) and written as ONNX, which is
checked with onnxruntime. And the model as it is, with named inputs and answers where it has them,
is cut with data to as many parameters: its own answers to 32 rows.

    python benchmarks/families.py
    python benchmarks/families.py --page   # writes the table of docs/how-to/models.md
"""

import argparse
import importlib.metadata
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from marking import filled, rewrite
from recording import RESULTS, record
from torch import Tensor, nn
from torch.nn import functional as F

from torchsparcs import RefineConfig, extract, spectralize, to_onnx
from torchsparcs.blocks.layers import is_layer
from torchsparcs.blocks.spectral import spectral_blocks
from torchsparcs.training.nests import tensors_in

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "models.md"
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4}
PICTURES = {"image_size": 32, "patch_size": 8}
WORDS = {"vocab_size": 100}
# class and config of each family, the name of its input, and other inputs
FAMILIES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "DistilBERT": (
        "DistilBertModel",
        "DistilBertConfig",
        {**WORDS, "dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4},
        "input_ids",
    ),
    "BERT": ("BertModel", "BertConfig", {**WORDS, **SIZES, **HEADS}, "input_ids"),
    "GPT-2": (
        "GPT2Model",
        "GPT2Config",
        {**WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2},
        "input_ids",
    ),
    "GPT-NeoX": ("GPTNeoXModel", "GPTNeoXConfig", {**WORDS, **SIZES, **HEADS}, "input_ids"),
    "T5, encoder": (
        "T5EncoderModel",
        "T5Config",
        {**WORDS, "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4},
        "input_ids",
    ),
    "ViT": ("ViTModel", "ViTConfig", {**SIZES, **HEADS, **PICTURES}, "pixel_values"),
    "CLIP, vision": (
        "CLIPVisionModel",
        "CLIPVisionConfig",
        {**SIZES, **HEADS, **PICTURES},
        "pixel_values",
    ),
    "Phi": ("PhiModel", "PhiConfig", {**WORDS, **SIZES, **HEADS}, "input_ids"),
    "Llama": (
        "LlamaModel",
        "LlamaConfig",
        {**WORDS, **SIZES, **HEADS, "num_key_value_heads": 2},
        "input_ids",
    ),
    "Swin": (
        "SwinModel",
        "SwinConfig",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4]}
        | {"window_size": 4},
        "pixel_values",
    ),
}


class First(nn.Module):
    """A model of ``transformers`` that takes one tensor and gives the first of its outputs."""

    def __init__(self, model: nn.Module, name: str):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: Tensor) -> Tensor:
        options = (
            {"use_cache": False}
            if self.name == "input_ids" and hasattr(self.model.config, "use_cache")
            else {}
        )
        return self.model(**{self.name: x}, return_dict=False, **options)[0]


class Residual(nn.Module):
    """``x + inner(x)``, through a ReLU where asked."""

    def __init__(self, inner: nn.Module, around: nn.Module | None = None, relu: bool = False):
        super().__init__()
        self.inner, self.around, self.relu = inner, around or nn.Identity(), relu

    def forward(self, x: Tensor) -> Tensor:
        total = self.inner(x) + self.around(x)
        return F.relu(total) if self.relu else total


def conv(
    n: int, m: int, size: int = 3, act: nn.Module | None = None, **options: Any
) -> list[nn.Module]:
    """A convolution with batch normalisation and, where given, an activation."""
    layer = nn.Conv2d(n, m, size, padding=size // 2, bias=False, **options)
    return [layer, nn.BatchNorm2d(m), *([act] if act is not None else [])]


def basic(n: int, m: int, stride: int = 1) -> nn.Module:
    around = nn.Sequential(*conv(n, m, 1, stride=stride)) if stride > 1 or n != m else None
    inner = nn.Sequential(*conv(n, m, act=nn.ReLU(), stride=stride), *conv(m, m))
    return Residual(inner, around, relu=True)


def bottleneck(n: int, m: int, stride: int = 1) -> nn.Module:
    around = nn.Sequential(*conv(n, 4 * m, 1, stride=stride)) if stride > 1 or n != 4 * m else None
    narrow = conv(n, m, 1, nn.ReLU())
    inner = nn.Sequential(*narrow, *conv(m, m, 3, nn.ReLU(), stride=stride), *conv(m, 4 * m, 1))
    return Residual(inner, around, relu=True)


def inverted(n: int) -> nn.Module:
    wide = conv(n, 4 * n, 1, nn.ReLU6())
    return Residual(
        nn.Sequential(*wide, *conv(4 * n, 4 * n, 3, nn.ReLU6(), groups=4 * n), *conv(4 * n, n, 1))
    )


class Mixer(nn.Module):
    """Two MLPs, over places and over channels."""

    def __init__(self, places: int, width: int):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(places, 24), nn.GELU(), nn.Linear(24, places))
        self.channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.places(self.first(x).mT).mT
        return x + self.channels(self.second(x))


class UNet(nn.Module):
    """Down, up, and what was there before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(*conv(3, 12, act=nn.ReLU()), *conv(12, 8, act=nn.ReLU()))
        self.low = nn.Sequential(*conv(8, 24, act=nn.ReLU()), *conv(24, 8, act=nn.ReLU()))
        self.up = nn.Sequential(*conv(16, 12, act=nn.ReLU()), nn.Conv2d(12, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        high = self.down(x)
        low = F.interpolate(self.low(F.max_pool2d(high, 2)), scale_factor=2.0)
        return self.up(torch.cat([high, low], dim=1))


def pooled(*parts: nn.Module, width: int) -> nn.Module:
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


OWN: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "ResNet-18-like": lambda: (
        pooled(*conv(3, 16, act=nn.ReLU()), basic(16, 16), basic(16, 32, 2), width=32),
        torch.randn(4, 3, 16, 16),
    ),
    "ResNet-50-like": lambda: (
        pooled(*conv(3, 16, act=nn.ReLU()), bottleneck(16, 8), bottleneck(32, 12, 2), width=48),
        torch.randn(4, 3, 16, 16),
    ),
    "MobileNetV2-like": lambda: (
        pooled(*conv(3, 8, act=nn.ReLU6()), inverted(8), inverted(8), width=8),
        torch.randn(4, 3, 16, 16),
    ),
    "MLP-Mixer": lambda: (nn.Sequential(Mixer(9, 16), Mixer(9, 16)), torch.randn(4, 9, 16)),
    "U-Net": lambda: (UNet(), torch.randn(4, 3, 16, 16)),
}


def models() -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Names, models and what they are called with."""
    if importlib.util.find_spec("transformers"):
        transformers = importlib.import_module("transformers")
        for name, (kind, config, options, given) in FAMILIES.items():
            torch.manual_seed(0)
            model = getattr(transformers, kind)(getattr(transformers, config)(**options))
            ids, pictures = torch.randint(1, 90, (4, 7)), torch.randn(4, 3, 32, 32)
            yield name, First(model, given), ids if given == "input_ids" else pictures
    for name, made in OWN.items():
        torch.manual_seed(0)
        yield name, *made()


def tried(model: nn.Module, x: Tensor, path: Path) -> dict[str, Any]:
    """What becomes of one model."""
    model.train()
    with torch.no_grad():  # weights that matter, and statistics for the normalisations
        for layer in filter(is_layer, model.modules()):
            nn.init.xavier_uniform_(layer.weight)
        model(x)
    model.eval()
    start = time.process_time()
    spectral = spectralize(model, target="*", example=x)
    seconds, blocks = time.process_time() - start, spectral_blocks(spectral)
    with torch.no_grad():
        answer, kept = model(x), spectral(x)
        for block in blocks:
            block.hidden_eigenvalues[0][::2] = 0
        small, silenced = extract(spectral), spectral(x)
        cut = small(x)
    found: dict[str, Any] = {
        "blocks": len(blocks),
        "units": sum(block.block.units for block in blocks),
        "seconds": seconds,
        "kept": (kept - answer).abs().max().item(),
        "cut": (cut - silenced).abs().max().item(),
        "moved": (silenced - answer).abs().max().item(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "left": sum(p.numel() for p in small.parameters()),
    }
    found |= cut_as_it_is(model, x, found["left"])
    try:
        to_onnx(small, path, example=x)
        found["onnx"] = path.stat().st_size
    except Exception as error:  # of an exporter that cannot, which is what is asked
        found["onnx"] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        found["onnx before"] = _is_exported(model, x, path)
    return found


def cut_as_it_is(model: nn.Module, x: Tensor, size: int) -> dict[str, float]:
    """Parameters of the model itself, cut to ``size`` with data, and by how much its answers moved.

    Of their variance, on the rows that it was cut with.
    """
    rows = torch.cat([x.roll(k, dims=-1) for k in range(8)])
    with torch.no_grad():
        answers = model(rows)
    inner, given = (model.model, {model.name: rows}) if isinstance(model, First) else (model, rows)

    def distance(output: Any, target: Tensor) -> Tensor:
        return F.mse_loss(next(tensors_in(output)), target)

    data = [(given, answers)]
    small = extract(
        inner,
        data=data,
        validation=data,
        task=distance,
        max_parameters=size,
        config=RefineConfig(epochs=1, lr=1e-4),
        progress=False,
    )
    with torch.no_grad():
        error = distance(small(**given) if isinstance(given, dict) else small(given), answers)
    left = sum(p.numel() for p in small.parameters())
    return {"cut with data": left, "moved by it": (error / answers.var()).item()}


def _is_exported(model: nn.Module, x: Tensor, path: Path) -> bool:
    try:
        to_onnx(model, path, example=x)
    except Exception:
        return False
    return True


def table(results: dict[str, dict[str, Any]]) -> str:
    """The results as a page has them."""
    heads = ["model", "blocks", "units", "kept within", "parameters", "with half of the units"]
    heads += ["cut with data", "ONNX"]
    rows = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, found in results.items():
        before = ", nor before" * (not found.get("onnx before", True))
        onnx = "checked" if isinstance(found["onnx"], int) else f"no{before}"
        worst = max(found["kept"], found["cut"])
        rows.append(
            f"| {name} | {found['blocks']} | {found['units']} | {f'{worst:.0e}' if worst else 0} | "
            f"{found['parameters']:,} | {found['left']:,} | "
            f"{found['cut with data']:,} | {onnx} |"
        )
    return "\n\n" + "\n".join(rows) + "\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="write the table into the docs")
    parser.add_argument("--only", nargs="+", help="names of models")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.page:
        results = json.loads((options.out / "families.json").read_text())["cpu"]["models"]
        rewrite(PAGE, filled(PAGE.read_text(), "families", {"table": table}, results))
        return
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model, x in models():
            if options.only is None or name in options.only:
                results[name] = tried(model, x, Path(folder) / "model.onnx")
                print(name, results[name], flush=True)
    known = importlib.util.find_spec("transformers") is not None
    version = importlib.metadata.version("transformers") if known else None
    print(record("families", "cpu", {"transformers": version, "models": results}, options.out))


if __name__ == "__main__":
    main()

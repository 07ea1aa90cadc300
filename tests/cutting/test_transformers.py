"""Models of transformers as their users have them: named inputs, answers with names, own losses.

transformers is not among what the tests need: these are for whoever has it.
"""

import logging
from pathlib import Path

import pytest
import torch
from pages import blocks_of as blocks_of_page

from torchsparcs import (
    RefineConfig,
    attach_penalty,
    evaluate,
    extract,
    extract_front,
    load,
    parameter_groups,
    save,
    spectralize,
    to_onnx,
)
from torchsparcs.blocks.spectral import spectral_blocks

transformers = pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "models.md"
WORDS = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4}
# class, config and its options, and what the labels are
FAMILIES = {
    "DistilBERT": (
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4},
        "class",
    ),
    "BERT": ("BertForSequenceClassification", "BertConfig", {**SIZES, **HEADS}, "class"),
    "GPT-2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "loss_type": "ForCausalLM"},
        "words",
    ),
    "T5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4}
        | {"decoder_start_token_id": 0, "tie_word_embeddings": True},
        "other words",
    ),
    "Llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**SIZES, **HEADS, "num_key_value_heads": 2},
        "words",
    ),
}


def built(name):
    torch.manual_seed(0)
    kind, config, options, _ = FAMILIES[name]
    return getattr(transformers, kind)(getattr(transformers, config)(**WORDS, **options))


def batches(name, length=9):
    """Four batches as a collator makes them, each as long as its longest row."""
    generator, found = torch.Generator().manual_seed(0), []
    for place in range(4):
        shape = (16, length - place % 2)
        ids = torch.randint(3, 100, shape, generator=generator)
        mask = torch.ones_like(ids)
        mask[::3, -2:] = 0
        labels = {"class": (ids[:, 0] > 50).long(), "words": ids.where(mask > 0, -100)}
        labels["other words"] = ids.flip(1)[:, :5].contiguous()
        batch = {"input_ids": ids, "attention_mask": mask, "labels": labels[FAMILIES[name][3]]}
        found.append(transformers.BatchEncoding(batch))
    return found


def own_loss(output, batch):
    return output.loss


def size(model):
    return sum(parameter.numel() for parameter in model.parameters())


def tied(model):
    words = model.get_input_embeddings(), model.get_output_embeddings()
    return words[1] is not None and words[0].weight is words[1].weight


@pytest.mark.parametrize("name", FAMILIES)
class TestCut:
    def cut(self, name, **options):
        model, data = built(name), batches(name)
        options = {"max_parameters": int(0.92 * size(model)), **options}
        return model, extract(
            model,
            data=data,
            validation=data,
            task=own_loss,
            config=RefineConfig(epochs=1, batch_size=16),
            progress=False,
            **options,
        )

    def test_with_the_loss_it_says_itself_and_kept(self, name, tmp_path):
        model, small = self.cut(name)
        assert type(small) is type(model)
        assert size(small) <= 0.92 * size(built(name)) == 0.92 * size(model)
        assert evaluate(small, batches(name), own_loss).loss < 1.2 * (
            evaluate(model, batches(name), own_loss).loss
        )
        save(small, tmp_path / "small.safetensors")
        again, given = load(tmp_path / "small.safetensors", into=built(name)), batches(name)[0]
        assert torch.equal(again(**given).logits, small.eval()(**given).logits)
        assert tied(again) == tied(small) == tied(model)
        if small.can_generate():
            asked = {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}
            words = [one.generate(**asked, max_new_tokens=3) for one in (small, again)]
            assert torch.equal(*words)

    def test_as_onnx(self, name, tmp_path, caplog):
        _, small = self.cut(name)
        given = dict(batches(name)[0])
        if name != "T5":
            del given["labels"]
        if name in ("GPT-2", "Llama", "T5"):
            small.config.use_cache = False
        with caplog.at_level(logging.WARNING):
            to_onnx(small, tmp_path / "small.onnx", example=given)  # checked there
        assert not [one for one in caplog.records if one.name.startswith("onnxscript")]
        assert (tmp_path / "small.onnx").exists()

    def test_by_multiply_adds_and_at_every_size(self, name):
        model = built(name)
        front = extract_front(
            model,
            data=batches(name),
            validation=batches(name),
            task=own_loss,
            size="macs",
            smallest=1,
            config=RefineConfig(epochs=1),
            progress=False,
        )
        assert front.points[0].macs <= front.points[-1].macs
        assert size(front.points[0].model) < size(model)


@pytest.mark.parametrize("name", ["GPT-2", "DistilBERT"])
def test_trained_by_its_trainer_with_a_penalty(name, tmp_path):
    pytest.importorskip("accelerate", reason="needs accelerate")
    data = batches(name)
    spectral = spectralize(built(name), target="*", example=data[0])
    optimizer = torch.optim.AdamW(parameter_groups(spectral, lr=1e-3, eigenvalue_lr_scale=5))
    attach_penalty(spectral, optimizer, 3e-3)
    rows = [{key: value[i] for key, value in data[0].items()} for i in range(16)]
    arguments = transformers.TrainingArguments(
        output_dir=tmp_path,
        per_device_train_batch_size=8,
        num_train_epochs=60,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = transformers.Trainer(
        spectral, arguments, train_dataset=rows, optimizers=(optimizer, None)
    )
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    recruited = sum(block.recruited[0] for block in spectral_blocks(spectral))
    plain = extract(spectral)
    wide = {"GPT-2": 2 * 128, "DistilBERT": 2 * 64}[name]
    assert 0 < recruited < wide
    assert size(plain) < size(built(name))
    one, other = (model.eval()(**data[0]).logits for model in (plain, spectral))
    assert torch.allclose(one, other, atol=1e-4)


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    (block,) = [b for b in blocks_of_page(PAGE) if b.note == "not run: needs transformers"]
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), names)
    small, model = names["small"], names["model"]
    assert size(small) <= 24_000 < size(model)
    held = names["batches"][24:]
    whole, cut = (evaluate(one, held, own_loss).loss for one in (model, small))
    assert cut < 1.2 * whole < 0.5
    assert (tmp_path / "small.onnx").exists()

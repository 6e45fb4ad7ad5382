"""Hugging Face's modules as they come, whole and with adapters of peft: inputs by name, outputs with logits."""

from functools import partial

import numpy as np
import pytest
import torch

import fedtrip
from fedtrip.training.trained_state import FROZEN_SHA256

transformers = pytest.importorskip("transformers", reason="needs pip install 'fedtrip[lora]'")
peft = pytest.importorskip("peft", reason="needs pip install 'fedtrip[lora]'")

WORDS, LENGTH, HIDDEN, RANK, LAYERS = 20, 8, 16, 2, 2
ADAPTERS = LAYERS * 2 * 2 * RANK * HIDDEN  # in queries and values of each layer A and B, of rank × hidden each
CLASSIFIER = 2 * HIDDEN + 2


def bert(*, adapters):
    shape = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=LENGTH, num_labels=2,
    )  # fmt: skip
    base = transformers.BertForSequenceClassification(shape)
    chosen = peft.LoraConfig(task_type="SEQ_CLS", r=RANK, target_modules=["query", "value"])
    return peft.get_peft_model(base, chosen) if adapters else base


def gpt2():
    shape = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=HIDDEN, n_layer=1, n_head=2, n_positions=LENGTH, num_labels=2, pad_token_id=0,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )  # fmt: skip
    return transformers.GPT2ForSequenceClassification(shape)


def made_text():
    random = np.random.default_rng(0)
    mask = (np.arange(LENGTH) < random.integers(3, LENGTH + 1, size=(60, 1))).astype(np.int64)
    ids = random.integers(1, WORDS, size=(60, LENGTH)) * mask
    return ids, mask, (ids[:, 0] > WORDS // 2).astype(np.int64)


def with_mask():
    ids, mask, y = made_text()
    inputs = {"input_ids": ids, "attention_mask": mask}
    return fedtrip.from_arrays(
        {name: x[:40] for name, x in inputs.items()}, y[:40], {name: x[40:] for name, x in inputs.items()}, y[40:]
    )


def run(workers=1, **given):
    experiment = fedtrip.Experiment(
        method=given.pop("method", "fedtrip"), rounds=2, clients=2, per_round=2, partition="iid", batch_size=10,
        optimizer="adam", lr=0.01,
    )  # fmt: skip
    return fedtrip.run(experiment, workers=workers, **given)


def test_a_module_with_inputs_by_name_is_trained_whole():
    result = run(model=partial(bert, adapters=False), data=with_mask())
    assert result.records[-1].bytes_up == 2 * 4 * sum(p.numel() for p in result.module.parameters())


@pytest.mark.parametrize("method", ["fedavg", "fedtrip"])
def test_only_adapters_and_the_classifier_travel_are_kept_and_are_stored(method):
    one, two = (run(workers, method=method, model=partial(bert, adapters=True), data=with_mask()) for workers in (1, 2))
    assert one.model_sha256 == two.model_sha256
    last = one.records[-1]
    assert last.bytes_up == last.bytes_down == 2 * 4 * (ADAPTERS + CLASSIFIER)
    assert last.client_memory == (0 if method == "fedavg" else 4 * (ADAPTERS + CLASSIFIER))
    stored = sum(value.numel() for name, value in one.to_store().items() if name != FROZEN_SHA256)
    assert stored == ADAPTERS + CLASSIFIER


def test_the_base_is_unchanged_and_the_adapters_are_not():
    made = []

    def make():
        made.append(bert(adapters=True))
        return made[-1]

    result = run(model=make, data=with_mask())
    before, after = made[0].state_dict(), result.module.state_dict()
    for name, parameter in result.module.named_parameters():
        assert torch.equal(before[name], after[name]) != parameter.requires_grad, name


def test_a_module_that_takes_token_ids_alone():
    ids, _, y = made_text()
    data = {"x_train": ids[:40], "y_train": y[:40], "x_test": ids[40:], "y_test": y[40:]}
    assert len(run(model=gpt2, data=data).records) == 2

"""LoRA: a frozen transformer, of which only small adapters are trained, travel and are stored.

    pip install 'fedtrip[lora]'
    python examples/lora.py

The transformer is built from a configuration, so that nothing is downloaded; in earnest its weights would be those of
`AutoModelForSequenceClassification.from_pretrained(FOLDER)`. The text is made: reviews of at most twelve
words, some of which praise or blame; each client has its own share of both.
"""

import numpy as np
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import fedtrip

WORDS, LENGTH = 64, 12
PRAISE, BLAME = range(1, 9), range(9, 17)  # word 0 is the padding


def reviews(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Word ids and mask of some reviews, and whether each has more praise than blame."""
    random = np.random.default_rng(seed)
    likes = random.integers(0, 2, size=count)
    ids = random.integers(17, WORDS, size=(count, LENGTH))
    for words, like in zip(ids, likes, strict=True):
        places = random.choice(8, size=3, replace=False)
        words[places] = random.choice(PRAISE if like else BLAME, size=3)
    mask = (np.arange(LENGTH) < random.integers(8, LENGTH + 1, size=(count, 1))).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}, likes


def model() -> nn.Module:
    """A small BERT with adapters of rank 8 in its attention; the classifier is trained too, all else is frozen."""
    shape = BertConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=LENGTH, num_labels=2, initializer_range=0.1,
    )  # fmt: skip
    adapters = LoraConfig(task_type="SEQ_CLS", r=8, lora_alpha=32, target_modules=["query", "value"])
    return get_peft_model(BertForSequenceClassification(shape), adapters)


def main() -> None:
    (x_train, y_train), (x_test, y_test) = reviews(1000, seed=1), reviews(300, seed=2)
    data = fedtrip.from_arrays(x_train, y_train, x_test, y_test)
    whole = sum(parameter.numel() for parameter in model().parameters())
    for method in ("fedtrip", "fedavg"):
        experiment = fedtrip.Experiment(
            method=method, rounds=10, clients=10, per_round=4, partition="dirichlet:5", optimizer="adam", lr=0.01,
            batch_size=20,
        )  # fmt: skip
        result = fedtrip.run(experiment, model=model, data=data, workers=1)
        one_upload = result.records[-1].bytes_up / 4
        print(
            f"{method}: accuracy {result.final_model_score:.2f} after {len(result.records)} rounds; an upload is "
            f"{one_upload / 1e6:.3f} MB, the whole model {4 * whole / 1e6:.3f} MB"
        )


if __name__ == "__main__":
    main()

"""What other libraries and papers call a thing, and what it is called here: suggestions that are near in meaning.

An option or name that nobody knows is looked up here first; only then is one proposed that has nearly the same letters.
This is the only place for such words. Nothing is accepted because it stands here: it is suggested.
"""

from __future__ import annotations

from collections.abc import Collection

VALUE = "{}"
"""Where the value that was typed goes; without one, what the option's help calls it."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "algo": ("--methods {}", "--method {}"),
    "algorithm": ("--methods {}", "--method {}"),
    "algorithms": ("--methods {}", "--method {}"),
    "strategy": ("--methods {}", "--method {}"),
    "method": ("--methods {}",),
    "methods": ("--method {}",),
    "epochs": ("--local-epochs {}",),
    "local-ep": ("--local-epochs {}",),
    "num-epochs": ("--local-epochs {}",),
    "client-epochs": ("--local-epochs {}",),
    "e": ("--local-epochs {}",),
    "learning-rate": ("--lr {}",),
    "client-lr": ("--lr {}",),
    "local-lr": ("--lr {}",),
    "eta": ("--lr {}",),
    "server-lr": ("--server-optimizer momentum --set server_optimizer.lr={}",),
    "alpha": ("--partition dirichlet:{}",),
    "dirichlet": ("--partition dirichlet:{}",),
    "dirichlet-alpha": ("--partition dirichlet:{}",),
    "non-iid": ("--partition dirichlet:0.5",),
    "noniid": ("--partition dirichlet:0.5",),
    "iid": ("--partition iid",),
    "shards": ("--partition shards:{}",),
    "classes-per-client": ("--partition shards:{}",),
    "split": ("--partition {}",),
    "partitioner": ("--partition {}",),
    "num-clients": ("--clients {}",),
    "n-clients": ("--clients {}",),
    "num-users": ("--clients {}",),
    "users": ("--clients {}",),
    "total-clients": ("--clients {}",),
    "clients-per-round": ("--per-round {}",),
    "cohort-size": ("--per-round {}",),
    "frac": ("--per-round K",),
    "fraction": ("--per-round K",),
    "fraction-fit": ("--per-round K",),
    "join-ratio": ("--per-round K",),
    "participation": ("--per-round K",),
    "comm-rounds": ("--rounds {}",),
    "communication-rounds": ("--rounds {}",),
    "global-rounds": ("--rounds {}",),
    "global-epochs": ("--rounds {}",),
    "num-rounds": ("--rounds {}",),
    "t": ("--rounds {}",),
    "bs": ("--batch-size {}",),
    "batch": ("--batch-size {}",),
    "local-bs": ("--batch-size {}",),
    "wd": ("--weight-decay {}",),
    "l2": ("--weight-decay {}",),
    "data": ("--dataset {}",),
    "data-set": ("--dataset {}",),
    "data-path": ("--data-dir {}",),
    "data-root": ("--data-dir {}",),
    "arch": ("--model {}",),
    "network": ("--model {}",),
    "net": ("--model {}",),
    "opt": ("--optimizer {}",),
    "loss": ("--task {}",),
    "metric": ("--set task.score={}",),
    "scheduler": ("--lr-schedule {}",),
    "lr-scheduler": ("--lr-schedule {}",),
    "lr-decay": ("--lr-schedule exponential:{}",),
    "grad-clip": ("--clip gradient:{}",),
    "max-norm": ("--clip gradient:{}",),
    "compression": ("--upload-codec {}",),
    "compress": ("--upload-codec {}",),
    "codec": ("--upload-codec {}",),
    "quantize": ("--upload-codec int8",),
    "aggregator": ("--combine {}",),
    "aggregation": ("--combine {}",),
    "sampler": ("--select {}",),
    "client-sampling": ("--select {}",),
    "byzantine": ("--attack {}",),
    "stragglers": ("--attack dropout:{}",),
    "drop-rate": ("--attack dropout:{}",),
    "target-accuracy": ("--target {}",),
    "target-acc": ("--target {}",),
    "early-stopping": ("--patience {}",),
    "eval-interval": ("--eval-every {}",),
    "eval-gap": ("--eval-every {}",),
    "test-every": ("--eval-every {}",),
    "val": ("--validation {}",),
    "val-split": ("--validation {}",),
    "random-seed": ("--seed {}",),
    "repeats": ("--trials {}", "--seed {}"),
    "seeds": ("--trials {}", "--seed {}"),
    "runs": ("--trials {}",),
    "times": ("--trials {}",),
    "gpu": ("--device cuda",),
    "cuda": ("--device cuda",),
    "jobs": ("--workers {}",),
    "n-jobs": ("--workers {}",),
    "num-workers": ("--workers {}",),
    "processes": ("--workers {}",),
    "threads": ("--workers {}",),
    "output": ("--out {}",),
    "output-dir": ("--out {}",),
    "outdir": ("--out {}",),
    "save-dir": ("--out {}",),
    "log-dir": ("--out {}",),
    "logdir": ("--out {}",),
    "name": ("--out {}",),
    "force": ("--overwrite",),
    "continue": ("--resume",),
    "restart": ("--resume",),
    "browser": ("--open",),
    "show": ("--open",),
    "config": ("{}",),
    "cfg": ("{}",),
}
"""Word, without its dashes → what to write here, the first that the command has."""

RULE_OPTIONS: dict[str, str] = {"lambda": "lam", "proximal-mu": "mu", "prox-mu": "mu", "temp": "temperature"}
"""Word → the option of some rule."""

COMMANDS: dict[str, str] = {
    "train": "run", "fit": "run", "start": "run", "simulate": "run", "resume": "run",
    "benchmark": "compare", "bench": "compare", "sweep": "compare", "grid": "compare",
    "eval": "evaluate", "test": "evaluate", "score": "evaluate",
    "plot": "report", "view": "report", "show": "report", "html": "report", "summary": "report",
    "dashboard": "watch", "monitor": "watch", "serve": "watch", "tensorboard": "watch", "live": "watch",
    "algorithms": "methods", "strategies": "methods", "help": "list", "ls": "list", "rules": "list",
    "download": "data", "split": "partition", "flops": "costs", "check": "doctor", "info": "doctor",
    "paper": "reproduce", "create": "new", "init": "new", "template": "new",
}  # fmt: skip

NAMES: dict[str, dict[str, str]] = {
    "data set": {
        "cifar": "cifar-10", "cifar10": "cifar-10", "cifar100": "cifar-100", "fashion": "fashion-mnist",
        "fmnist": "fashion-mnist", "fashionmnist": "fashion-mnist", "f-mnist": "fashion-mnist",
        "optdigits": "digits", "uci-digits": "digits", "emnist-balanced": "emnist",
    },
    "partition": {
        "noniid": "dirichlet", "non-iid": "dirichlet", "dir": "dirichlet", "lda": "dirichlet",
        "label-skew": "dirichlet", "pathological": "shards", "sharding": "shards", "natural": "given",
        "by-client": "given", "by-user": "given", "uniform": "iid", "random": "iid", "quantity-skew": "quantity",
        "feature-skew": "feature",
    },
    "method": {
        "prox": "fedprox", "avg": "fedavg", "fedopt": "fedadam", "standalone": "local", "local-only": "local",
        "separate": "local", "momentum": "fedavgm", "triplet": "fedtrip", "contrastive": "moon",
        "distillation": "fedgkd", "control-variates": "scaffold", "personalized": "ditto",
    },
    "model": {
        "resnet": "resnet8", "resnet-18": "resnet18", "linear": "logistic", "logreg": "logistic", "softmax": "logistic",
        "rnn": "lstm", "gpt": "transformer", "bert": "transformer", "convnet": "cnn", "dnn": "mlp", "fc": "mlp",
    },
    "task": {
        "multiclass": "classification", "cross-entropy": "classification", "ce": "classification", "mse": "regression",
        "bce": "binary", "multi-label": "multilabel", "lm": "tokens", "language-model": "tokens", "text": "tokens",
    },
    "optimizer": {"momentum": "sgd", "nesterov": "sgd", "adam-w": "adamw"},
    "lr_schedule": {"annealing": "cosine", "cosine-annealing": "cosine", "exp": "exponential", "decay": "exponential"},
    "select": {"random": "uniform", "all": "uniform", "by-size": "weighted"},
    "upload_codec": {
        "quantize": "int8", "quantization": "int8", "8bit": "int8", "4bit": "int4", "top-k": "topk", "sparse": "topk",
        "sparsify": "topk", "random-k": "randk", "rand-k": "randk", "signsgd": "sign", "drive": "eden",
    },
    "combine": {"average": "mean", "avg": "mean", "fedavg": "mean", "trimmed-mean": "trimmed", "trim": "trimmed"},
    "server_optimizer": {
        "fedadam": "adam", "fedyogi": "yogi", "fedadagrad": "adagrad", "fedavgm": "momentum", "sgd": "none",
    },
    "attack": {"byzantine": "corrupt", "noise": "corrupt", "straggler": "dropout", "drop": "dropout"},
    "engine": {"flower": "flower-simulation", "flwr": "flower-simulation", "simulation": "flower-simulation"},
    "family": {"algorithm": "method", "algorithms": "methods", "compression": "upload_codec", "aggregation": "combine"},
}  # fmt: skip
"""Kind of name → word → the name here."""


def meant(kind: str, word: str, known: Collection[str]) -> str | None:
    """The known name that somebody means by a word; None if the word is not in the tables, or its name not known."""
    plain = word.lower().replace("_", "-").replace(" ", "-")
    if kind in ("field", "--set"):  # of an experiment, whose options are its fields
        forms = (form.partition(" ")[0].lstrip("-").replace("-", "_") for form in OPTIONS.get(plain, ()))
        return next((field for field in forms if field in known), None)
    name = NAMES.get(kind, {}).get(plain)
    return name if name in known else None

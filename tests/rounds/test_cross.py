"""Rules of all families together: every pair of two rules runs, or is refused by the names of both.

`make test` runs a covering array, a few dozen experiments in which every pair of rules that go together occurs;
`make cross` runs the whole product.
"""

import itertools
import math

import pytest
from tests.reference.setting import Net, made, samples
from torch import nn

import fedtrip
from fedtrip.experiment.rules import make_rules
from fedtrip.families import COMBINE, METHOD, SELECT, SERVER_OPTIMIZER, UPLOAD_CODEC

PARAMETERS = {
    "topk": "topk:0.1", "randk": "randk:0.1", "int": "int:4:16", "available": "available:0.9",
    "trimmed": "trimmed:0.25", "krum": "krum:0", "multikrum": "multikrum:0:2", "clip": "clip:0.1",
    "centered": "centered:0.1:2",
}  # fmt: skip
FAMILIES = (METHOD, UPLOAD_CODEC, COMBINE, SERVER_OPTIMIZER, SELECT)
RULES = {family.field: [PARAMETERS.get(name, name) for name in family.names()] for family in FAMILIES}
RULES["combine"].remove("private")  # refuses a model with BatchNorm: see tests/combining/test_private.py
RULES["upload_codec"].append({"name": "topk:0.1", "feedback": False})
RULES["attack"] = [f"{name}:0.3" for name in ("signflip", "labelflip", "gaussian", "alie", "ipm")]
RULES["attack"].insert(0, "none")
"""attacks that leave every upload usable; a backdoor needs images"""
RULES["upload_codec"].append({"name": "randk:0.1", "feedback": True})
PER_ROUND, SIZES, BATCH = 5, (12, 18, 12, 24, 6, 18, 12), 6  # unequal, or FedNova is FedAvg
MODULE = made(lambda: Net(nn.BatchNorm1d(5), nn.Tanh()))
W = sum(p.numel() for p in MODULE.parameters())
HEAD, NORM = 5 * 3 + 3, 2 * 5
"""numbers in w of the last layer, and of BatchNorm"""
BUFFERS = 4 * 2 * 5 + 8
"""bytes of BatchNorm's statistics and of its counter, which no codec touches"""
UPLOADED = {
    "scaffold": [W, W], "mimelite": [W, W], "feddane": [W, W], "fednova": [W, 1], "feddisco": [W, 1],
    "fedcm": [W, 1], "mofedsam": [W, 1], "feddc": [W, W], "fedlesam-s": [W, W], "fedsmoo": [W, W],
    "fedbn": [W - NORM], "fedper": [W - HEAD], "fedrep": [W - HEAD], "fedbabu": [W - HEAD], "lg-fedavg": [HEAD],
    "local": [0],
}  # fmt: skip
"""lengths of the vectors that a client of the method sends in a round, if not w alone"""
KEEPS_BUFFERS = {"fedbn", "lg-fedavg", "local"}
"""methods in which BatchNorm's statistics never travel"""
SAME_GLOBAL_MODEL = {"ditto"}
"""methods whose global model is FedAvg's, to the bit"""
LOOKS_AT_EACH = {"fednova", "fedexp", "fedcm", "mofedsam"}
SUMS = {"feddyn", "scaffold", "feddc", "fedspeed", "fedsmoo", "fedlesam-s", "fedlesam-d"}


def experiment(**rules):
    return fedtrip.Experiment(rounds=2, per_round=PER_ROUND, batch_size=BATCH, lr=0.05, **rules)


def run(described, **options):
    pairs = samples(SIZES)
    data = fedtrip.from_clients(pairs, pairs[0], mean=0.0, std=1.0)
    return fedtrip.run(described, model=MODULE, data=data, **{"workers": 1, **options})


def refusal(rules):
    """Why these rules do not go together; None if they do."""
    try:
        make_rules(experiment(**rules))
    except fedtrip.UserError as problem:
        return str(problem)
    return None


def name_of(rule):
    return rule if isinstance(rule, str) else rule["name"]


SENDING = ("fedtrip", "fedavg", "scaffold", "fednova", "fedbn", "fedper", "lg-fedavg", "local")
"""methods of every kind of upload, of which alone a codec sees something"""
WITH_EVERY_METHOD = {"none", "int8", "topk:0.1"}
"""the codecs that are paired with all methods"""


def is_run(pair):
    """Whether `make test` is to run this pair of rules; `make cross` runs all of them."""
    if set(pair) != {"method", "upload_codec"}:
        return True
    return str(pair["upload_codec"]) in WITH_EVERY_METHOD or pair["method"] in (*SENDING, "feddane")


PAIRS = [
    pair
    for one, other in itertools.combinations(RULES, 2)
    for a, b in itertools.product(RULES[one], RULES[other])
    if is_run(pair := {one: a, other: b})
]
REFUSED = [pair for pair in PAIRS if refusal(pair)]


def covering():
    """Experiments, each a rule of every family, in which every pair that is not refused occurs; greedily few."""
    left = [pair for pair in PAIRS if pair not in REFUSED]
    while left:
        row = dict(left[0])
        for field in RULES:
            if field not in row:
                fitting = [rule for rule in RULES[field] if not refused_within({**row, field: rule})]
                row[field] = max(fitting, key=lambda rule: sum(within(p, {**row, field: rule}) for p in left))
        left = [pair for pair in left if not within(pair, row)]
        yield row


def within(pair, row):
    return all(field in row and row[field] == rule for field, rule in pair.items())


def refused_within(row):
    return any(within(pair, row) for pair in REFUSED)


def coded_bytes(codec, d):
    """The length of a coded vector of d numbers, written down again."""
    k = math.ceil(0.1 * d)
    padded = 2 ** math.ceil(math.log2(d)) if d else 0  # all vectors here are one block
    return {
        "none": 4 * d,
        "int8": d + 4,
        "int4": math.ceil(d / 2) + 4,
        "int:4:16": math.ceil(d / 2) + 4 * math.ceil(d / 16),
        "qsgd": math.ceil(d / 2) + 4,
        "sign": math.ceil(d / 8) + 4,
        "topk:0.1": 4 + 4 * k + min(4 * k, math.ceil(d / 8)),
        "randk:0.1": 4 * k,
        "eden": math.ceil(padded / 8) + 4 * (d > 0),
    }[codec]


def check(row):
    """Two rounds of it; what must hold whatever the rules are."""
    result = run(experiment(**row))
    assert result.ended is None, row
    for record in result.records:
        few = row["select"] == "poisson"  # as many as come; Krum may need more
        assert few or not record.refused, row
        assert few or 1 <= len(record.clients) <= PER_ROUND
        assert record.accuracy is not None
        codec = name_of(row["upload_codec"])
        vectors = sum(coded_bytes(codec, d) for d in UPLOADED.get(row["method"], [W]))
        buffers = 0 if row["method"] in KEEPS_BUFFERS else BUFFERS
        assert record.bytes_up == len(record.clients) * (vectors + buffers), row
    return result


ROWS = list(covering())


def test_every_kind_of_upload_meets_every_codec():
    kinds = [UPLOADED.get(method, [W]) for method in RULES["method"]]
    assert all(kind in [UPLOADED.get(method, [W]) for method in SENDING] for kind in kinds)


def test_the_rows_hold_every_pair_that_is_not_refused():
    for pair in PAIRS:
        assert (pair in REFUSED) != any(within(pair, row) for row in ROWS), pair


@pytest.mark.parametrize("part", range(8))
def test_every_pair_of_rules_runs(part):
    for row in ROWS[part::8]:
        check(row)


def test_a_pair_that_does_not_go_together_is_refused_by_both_names():
    assert {pair["method"] for pair in REFUSED} == {"feddane", *SUMS, *LOOKS_AT_EACH}
    for pair in REFUSED:
        told = refusal(pair)
        for field, rule in pair.items():
            assert f"{field} '{name_of(rule)}" in told, pair
        assert "; accepted: " in told
        with pytest.raises(fedtrip.UserError):
            run(experiment(**pair))


@pytest.mark.parametrize("field", RULES)
def test_every_rule_of_a_family_gives_another_model(field):
    """No rule does nothing, or what another one does."""
    digests = {}
    for rule in (rule for rule in RULES[field] if str(rule) not in SAME_GLOBAL_MODEL):
        result = run(experiment(**{"method": "fedavg", field: rule}))
        digests[str(rule)] = result.model_sha256
    assert len(set(digests.values())) == len(digests), digests


TOGETHER = {
    "method": "fedtrip", "upload_codec": "topk:0.4", "combine": "median", "server_optimizer": "yogi",
    "select": "weighted", "optimizer": "adam", "keep_optimizer_state": True,
}  # fmt: skip


def test_the_same_bits_with_workers_and_after_a_resumption(tmp_path):
    """With all that is kept from round to round: residuals, moments of clients and server, historical models."""
    described = experiment(**TOGETHER).but(rounds=3)
    whole = run(described)
    assert run(described, workers=2).model_sha256 == whole.model_sha256
    assert run(described.but(upload_codec={"name": "topk:0.4", "feedback": False})).model_sha256 != whole.model_sha256

    class Killed(Exception):
        pass

    def kill(record):
        if record.round == 1:
            raise Killed

    with pytest.raises(Killed):
        run(described, out=tmp_path / "run", on_round=kill)
    seen = []
    resumed = run(described, out=tmp_path / "run", resume=True, on_round=lambda record: seen.append(record.round))
    assert seen == [2, 3]
    assert resumed.model_sha256 == whole.model_sha256
    stored = fedtrip.Experiment.from_toml(tmp_path / "run/experiment.toml")
    assert run(stored).model_sha256 == whole.model_sha256


@pytest.mark.cross
@pytest.mark.parametrize("method", RULES["method"])
def test_the_whole_product(method):
    """Every combination of all families: it runs, or a pair in it is refused by name."""
    others = [field for field in RULES if field not in ("method", "attack")]  # attacks: in the pairs
    for rules in itertools.product(*(RULES[field] for field in others)):
        row = {"method": method, **dict(zip(others, rules, strict=True))}
        told = refusal(row)
        assert bool(told) == refused_within(row), row
        if told is None:
            check(row)

"""Suggestions that are near in meaning: other libraries' words, options of rules, with what was typed in its place."""

from __future__ import annotations

import pytest

from fedtrip.cli import app
from fedtrip.data.catalog import KNOWN_SETS
from fedtrip.errors import unknown_name
from fedtrip.experiment.description import Experiment
from fedtrip.families import FAMILIES, model_names
from fedtrip.synonyms import COMMANDS, NAMES, OPTIONS, RULE_OPTIONS, meant

SUGGESTED = [
    ("run --mu 0.4", "--set method.mu=0.4 (an option of fedtrip, "),
    ("run --mu=0.4", "--set method.mu=0.4 (an option of fedtrip, "),
    ("run --mu -0.4", "--set method.mu=-0.4 (an option of "),
    ("run --mu", "--set method.mu=MU (an option of "),
    ("run --mu --rounds 3", "--set method.mu=MU (an option of "),
    ("run --method fedavg --mu 0.4", ", not of fedavg)?"),
    ("run --method fedprox --mu 0.4", "--set method.mu=0.4 (an option of fedprox)?"),
    ("compare --methods fedavg,moon --tau 0.5", "--set method.tau=0.5 (an option of moon)?"),
    ("run --proximal-mu 1", "--set method.mu=1 (an option of "),
    ("run --lambda 3", "--set method.lam=3 (an option of ditto, "),
    ("run --optimizer adam --beta1 0.8", "--set optimizer.beta1=0.8 (an option of adam)?"),
    ("run --feedback false", "--upload-codec eden --set upload_codec.feedback=false (an option of eden, "),
    ("run --share 0.1", "--upload-codec randk:0.1?"),
    ("run --alpha 0.1", "--partition dirichlet:0.1?"),
    ("run --alpha", "--partition dirichlet:ALPHA?"),
    ("run --method feddyn --alpha 0.1", "--set method.alpha=0.1 (an option of feddyn)?"),
    ("run --algorithm fedavg", "--method fedavg?"),
    ("compare --algorithm fedavg", "--methods fedavg?"),
    ("compare --method fedavg", "--methods fedavg?"),
    ("run --epochs 5", "--local-epochs 5?"),
    ("run --learning_rate 0.1", "--lr 0.1?"),
    ("run --gpu", "--device cuda?"),
    ("compare --seeds 5", "--trials 5?"),
    ("run --config mine.toml", "mine.toml alone, without --config?"),
    ("report x --output y.html", "--out y.html?"),
    ("train", "run?"),
    ("monitor", "watch?"),
]


@pytest.mark.parametrize(("typed", "meaning"), SUGGESTED)
def test_what_was_meant(fedtrip, here, typed, meaning):
    ended = fedtrip(*typed.split())
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert f"; did you mean {meaning}" in ended.err or meaning in ended.err.partition("; did you mean ")[2], ended.err
    assert " --help" in ended.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("typed", ["run --zzz 3", "costs --mu 3", "report x --algorithm y", "nonsense"])
def test_nothing_is_made_up(fedtrip, typed):
    ended = fedtrip(*typed.split())
    assert ended.code == 2
    assert "id you mean" not in ended.err


def test_letters_still_count(fedtrip):
    assert "Did you mean '--lr'? see fedtrip run --help" in fedtrip("run", "--lrr", 3).err
    assert "did you mean 'fedtrip'?" in fedtrip("run", "--method", "fedtrp").err


def test_what_was_typed_is_quoted_for_a_shell(fedtrip):
    ended = fedtrip("run", "--mu", "$(rm x); y")
    assert "--set method.mu='$(rm x); y' (" in ended.err


@pytest.mark.parametrize(
    ("kind", "word", "name"),
    [
        ("data set", "fmnist", "fashion-mnist"),
        ("data set", "CIFAR10", "cifar-10"),
        ("data set", "cifar", "cifar-10"),
        ("data set", "fashion_mnist", "fashion-mnist"),
        ("partition", "non-iid", "dirichlet:ALPHA"),
        ("upload_codec", "quantization", "int8"),
        ("combine", "average", "mean"),
        ("model", "linear", "logistic"),
        ("task", "mse", "regression"),
    ],
)
def test_names(kind, word, name):
    known = {"data set": list(KNOWN_SETS), "model": model_names()}.get(kind)
    forms = None
    if known is None:
        forms = dict(zip(FAMILIES[kind].names(), FAMILIES[kind].forms(), strict=True))
        known = list(forms)
    told = str(unknown_name(kind, word, known, forms=forms))
    assert f"is unknown; did you mean '{name}'?" in told


def test_fields_of_an_experiment_file(fedtrip, here):
    (here / "a.toml").write_text("learning_rate = 0.1\n")
    assert "field 'learning_rate' is unknown; did you mean 'lr'?" in fedtrip("run", "a.toml").err
    assert "--set 'num_clients' is unknown; did you mean 'clients'?" in fedtrip("run", "--set", "num_clients=3").err


# ---- the tables themselves


def commands():
    from typer.main import get_command

    return get_command(app).commands


def test_every_word_leads_to_something_that_is_there_and_is_itself_not():
    options = {spelling for command in commands().values() for one in command.params for spelling in one.opts}
    for word, forms in OPTIONS.items():
        for form in forms:
            assert form.partition(" ")[0] in {*options, "{}"}, word
            if "--set" in form:
                field = form.partition("--set ")[2].partition(".")[0]
                assert field in FAMILIES, word
    for name in ("run", "compare"):  # a word that the command itself has is never looked up
        own = {spelling.lstrip("-") for one in commands()[name].params for spelling in one.opts}
        assert own & OPTIONS.keys() <= {"method", "methods"}
    some = {option for family in FAMILIES.values() for name in family.names() for option in family.options(name)}
    assert set(RULE_OPTIONS.values()) <= some


def test_every_command_and_name_of_the_tables_is_there():
    assert not COMMANDS.keys() & commands().keys()
    assert set(COMMANDS.values()) <= commands().keys()
    for kind, words in NAMES.items():
        known = {
            "data set": list(KNOWN_SETS),
            "model": model_names(),
            "engine": ["local", "flower-simulation"],
            "family": [*FAMILIES, *(family.folder for family in FAMILIES.values())],
        }.get(kind) or FAMILIES[kind].names()
        assert set(words.values()) <= set(known), kind
        assert not words.keys() & set(known), kind
        assert all(meant(kind, word, known) == name for word, name in words.items())


def test_partitions_and_rules_of_options_can_be_read():
    for forms in OPTIONS.values():
        for form in forms:
            option, _, value = form.partition(" ")
            field = option.lstrip("-").replace("-", "_")
            if field in ("partition", "upload_codec", "attack", "lr_schedule") and value not in ("{}", ""):
                Experiment(**{field: value.replace("{}", "0.5" if "shards" not in value else "2")})

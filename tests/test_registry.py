"""The registry: every way to write a rule, what is refused and how, and that names cost no import."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field

from fedtrip.errors import UserError
from fedtrip.families import COMBINE, FAMILIES, SELECT, SERVER_OPTIMIZER, UPLOAD_CODEC
from fedtrip.registry import Choice
from fedtrip.registry.explanation import explain_rule
from fedtrip.selection.interface import Select


@dataclass(frozen=True)
class EveryOther(Select):
    """clients 0, n, 2n, …"""

    parameter = "n"
    n: Annotated[int, Field(ge=1)] = 2
    """which ones"""

    def __call__(self, rng, t, clients, per_round, samples_of):  # noqa: ARG002
        return tuple(range(0, clients, self.n))[:per_round]


def test_a_rule_is_written_as_a_name_a_parameter_a_table_or_an_object():
    topk = UPLOAD_CODEC.make("topk:0.25")
    assert topk == UPLOAD_CODEC.make({"name": "topk", "share": 0.25}) == UPLOAD_CODEC.make(topk)
    assert topk == UPLOAD_CODEC.make({"name": "topk:0.25", "feedback": True})
    assert UPLOAD_CODEC.make({"name": "topk:0.25", "feedback": False}) != topk
    assert UPLOAD_CODEC.make({}) == UPLOAD_CODEC.make("none")  # a table without a name is the default rule's


def test_a_class_of_ones_own_is_named_by_its_place():
    rule = SELECT.make({"name": f"{__name__}:EveryOther", "n": 3})
    assert rule == EveryOther(3)
    assert SELECT.complete(rule) == Choice(f"{__name__}:EveryOther", {}, "3")
    assert SELECT.make(EveryOther(3)) == EveryOther(3)
    assert SELECT.make(f"{__name__}:EveryOther:3") == EveryOther(3)
    assert SELECT.make(SELECT.complete(rule).as_toml()) == EveryOther(3)


def test_what_is_complete_is_read_back_as_the_same_rule():
    for family in (UPLOAD_CODEC, COMBINE, SERVER_OPTIMIZER):
        for name in family.names():
            rule = family.make(f"{name}:0.1" if name in ("topk", "randk") else name)
            assert family.make(family.complete(rule).as_toml()) == rule
    assert UPLOAD_CODEC.complete(UPLOAD_CODEC.make("topk:0.1")).as_toml() == {"name": "topk:0.1", "feedback": True}
    assert UPLOAD_CODEC.complete(UPLOAD_CODEC.make("int8")).as_toml() == "int8"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("tpk", ["upload_codec 'tpk' is unknown", "did you mean 'topk:SHARE'"]),
        ("topk", ["upload_codec 'topk' needs the option 'share'; accepted: topk:SHARE"]),
        ("topk:2", ["option 'share' is 2", "less than or equal to 1"]),
        ("randk", ["upload_codec 'randk' needs the option 'share'; accepted: randk:SHARE"]),
        ("eden:5", ["upload_codec 'eden:5': option 'bits' is 5", "less than or equal to 4"]),
        ("int:1", ["upload_codec 'int:1': option 'bits' is 1", "greater than or equal to 2"]),
        ("int:4:0", ["upload_codec 'int:4:0': option 'block' is 0", "greater than or equal to 1"]),
        ("qsgd:128", ["upload_codec 'qsgd:128': option 'levels' is 128", "less than or equal to 127"]),
        ("qsgd:7:few", ["upload_codec 'qsgd:7:few': option 'bucket' is 'few'", "integer"]),
        ("sign:1", ["'sign' has no parameter"]),
        ("int6", ["upload_codec 'int6' is unknown", "did you mean 'int"]),
        ("topk:much", ["option 'share' is 'much'", "number"]),
        ("none:3", ["'none' has no parameter"]),
        ({"name": "topk:0.1", "share": 0.2}, ["'share' twice"]),
        ({"name": "topk", "share": True}, ["option 'share' is True", "number"]),
        ({"name": "int8", "bits": 4}, ["option 'bits' is unknown", "has no options"]),
        ({"name": "topk:0.1", "feedbak": True}, ["option 'feedbak' is unknown", "did you mean 'feedback'"]),
        (3, ["upload_codec is 3", "none", "package.module:Class"]),
        ("json:loads", ["upload_codec 'json:loads' is not usable", "subclass of"]),
        ("nowhere.at_all:Rule", ["upload_codec 'nowhere.at_all:Rule' cannot be imported"]),
    ],
)
def test_a_wrong_rule_is_refused_by_name(value, words):
    with pytest.raises(UserError) as refused:
        UPLOAD_CODEC.make(value)
    for word in words:
        assert word in str(refused.value)


def test_names_of_all_families_cost_no_pytorch():
    code = (
        "import sys; from fedtrip.families import FAMILIES;"
        "assert all(family.default in family.names() for family in FAMILIES.values());"
        "assert FAMILIES['upload_codec'].read('topk:0.1').parameter == '0.1';"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("field", sorted(FAMILIES))
def test_every_rule_can_be_explained(field):
    family = FAMILIES[field]
    for name in family.names():
        explained = explain_rule(family, name)
        assert explained.title, name
        assert explained.formula, name
        assert all(option.help for option in explained.options), name


def test_reading_a_name_imports_nothing_and_never_fails_otherwise(here, monkeypatch):
    """Also where it looks like a slip in a built-in rule's name: a package of that name may be there."""
    monkeypatch.syspath_prepend(here)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (here / "int8").mkdir()
    (here / "int8" / "__init__.py").write_text("raise SystemExit('imported')")
    (here / "int9").mkdir()
    (here / "int9" / "__init__.py").write_text("")
    assert UPLOAD_CODEC.read("int8.a:Rule").name == "int8.a:Rule"
    assert UPLOAD_CODEC.read("topk.a:Rule").name == "topk.a:Rule"
    assert UPLOAD_CODEC.read("int9:Rule").name == "int9:Rule"
    with pytest.raises(UserError, match="did you mean 'int:BITS'"):
        UPLOAD_CODEC.read("int7:Rule")


def test_the_name_in_a_table_is_a_text():
    for name in (3, {"name": "topk:0.1", "feedback": False}, ["topk"]):
        with pytest.raises(UserError, match=r"upload_codec is .*; accepted: none, eden:BITS, .*, topk:SHARE"):
            UPLOAD_CODEC.make({"name": name})


@dataclass(frozen=True)
class Named(Select):
    """clients by a word"""

    parameter = "word"
    word: str = "all"
    """which"""
    twice: bool = False
    """whether twice"""


@dataclass(frozen=True)
class Switched(Named):
    """the same, switched"""

    parameter = "twice"


@pytest.mark.parametrize(
    "rule", [Named("3"), Named("0.5"), Named("a:b"), Named(" x"), Named(""), Switched("all", True)]
)
def test_a_parameter_that_would_be_read_as_something_else_stays_an_option(rule):
    assert SELECT.make(SELECT.complete(rule).as_toml()) == rule


def test_an_option_replaces_the_parameter_of_the_same_name():
    for choice, option, value, expected in (
        ("topk:0.5", "share", 0.25, UPLOAD_CODEC.make("topk:0.25")),
        ("topk:0.5", "feedback", False, UPLOAD_CODEC.make({"name": "topk:0.5", "feedback": False})),
    ):
        assert UPLOAD_CODEC.make(UPLOAD_CODEC.with_option(UPLOAD_CODEC.read(choice), option, value)) == expected
    own = SELECT.read(f"{__name__}:EveryOther:3")
    assert SELECT.make(SELECT.with_option(own, "n", 4)) == EveryOther(4)


@pytest.mark.parametrize("field", sorted(FAMILIES))
def test_what_stands_behind_the_colon_is_read_off_the_source_as_the_class_has_it(field):
    family = FAMILIES[field]
    for name in family.names():
        cls, colon = family.find(name), family.colon_of(name)
        assert (None if colon is None else colon.option) == cls.parameter
        if colon is not None:
            (parameter,) = (one for one in dataclasses.fields(cls) if one.name == colon.option)
            assert colon.is_needed == (parameter.default is dataclasses.MISSING)


def test_every_option_says_what_it_accepts():
    accepted = {one.name: one.accepted for one in explain_rule(FAMILIES["method"], "scaffold").options}
    assert accepted == {"option": "I | II", "eta_g": "float > 0"}
    accepted = {one.name: one.accepted for one in explain_rule(FAMILIES["partition"], "feature").options}
    assert accepted == {"shift": "noise | rotation", "sigma": "float > 0 | nothing"}


@dataclass(frozen=True)
class Two(Select):
    """clients by two options"""

    parameter, second_parameter = "n", "word"
    n: int
    """how many"""
    word: str | None = None
    """which"""
    twice: bool = False
    """whether twice"""


def test_a_second_option_may_stand_behind_a_second_colon():
    name = f"{__name__}:Two"
    assert SELECT.make(f"{name}:3") == Two(3)
    assert SELECT.make(f"{name}:3:some") == Two(3, "some")
    assert SELECT.complete(Two(3, "some", True)) == Choice(name, {"twice": True}, "3:some")
    assert SELECT.complete(Two(3)) == Choice(name, {"twice": False}, "3")
    for rule in (Two(3), Two(3, "some"), Two(3, "4")):  # the text "4" would be read as a number
        assert SELECT.make(SELECT.complete(rule).as_toml()) == rule
    assert SELECT.make(SELECT.with_option(SELECT.read(f"{name}:3:some"), "word", "all")) == Two(3, "all")
    assert SELECT.make(SELECT.with_option(SELECT.read(f"{name}:3:some"), "twice", True)) == Two(3, "some", True)
    with pytest.raises(UserError, match="gives 'word' twice"):
        SELECT.make({"name": f"{name}:3:some", "word": "all"})
    with pytest.raises(UserError, match="option 'n' is '3:x'"):
        SELECT.make(f"{__name__}:EveryOther:3:x")
    assert [one.accepted for one in explain_rule(COMBINE, "trimmed").options] == ["float ≥ 0, < 0.5"]

"""What variants are called: by the class, by `--label`, and the same in table, figure, report and folder."""

import json
import re
from dataclasses import dataclass
from typing import ClassVar

import pytest
from tests.comparison.test_compare import SMALL
from tests.comparison.test_compare import result as made_up

import fedtrip as package
from fedtrip import Experiment, Method, UserError, compare
from fedtrip.comparison.labels import read_labels, with_labels
from fedtrip.comparison.variants import make_variants
from fedtrip.experiment.names import shown_method
from fedtrip.methods.fedprox import FedProx
from fedtrip.report import read_folders
from fedtrip.runs.folder import read_summary


@dataclass(frozen=True)
class Named(Method):
    """FedAvg that says what it is called"""

    label: ClassVar[str] = "Ours (2026)"
    strength: float = 0.1


@dataclass(frozen=True)
class Below(Named):
    """Another method: it has the name of its class"""


@dataclass(frozen=True)
class Wrong(Method):
    """FedAvg with a number for a label"""

    label = 3


def variants(methods=("fedtrip", "fedavg"), sweeps=None):
    return make_variants(Experiment(), list(methods), sweeps or {})


def labels(*arguments):
    return [variant.label for variant in variants(*arguments)]


# ---- of a class


def test_a_class_says_what_it_is_called_and_a_subclass_does_not_inherit_it():
    assert labels([Named(), Below(), "fedavg"]) == ["Ours (2026)", "Below", "fedavg"]
    assert labels([Named(strength=0.5)]) == ["Ours (2026)"]
    assert labels([Named()], {"Named.strength": [1, 2]}) == ["Ours (2026) strength=1", "Ours (2026) strength=2"]
    assert [v.name for v in variants([Named()])] == [f"{__name__}:Named"]


def test_only_the_name_of_a_class_is_shortened():
    assert shown_method("package.module:Outer.Mine") == "Mine"
    for name in ("fedtrip-auto", "fedavg", "x:<img src=x onerror=a.b=1>", "x:", "a b:c d.e"):
        assert shown_method(name) == name


def test_two_variants_of_one_label_are_called_what_they_are():
    assert labels([Named(), Named(strength=0.5)]) == [f"{__name__}:Named", f"{__name__}:Named strength=0.5"]


def test_a_label_that_is_no_text_is_refused():
    with pytest.raises(UserError, match=r"Wrong': label is 3; accepted: a text"):
        labels([Wrong()])


def test_a_single_run_keeps_what_its_class_calls_it(tmp_path, monkeypatch):
    run = package.run(Experiment(**SMALL, method=Named()), workers=1, out=tmp_path / "run")
    assert repr(run).startswith("<Result Ours (2026) on digits")
    assert read_summary(tmp_path / "run")["method_label"] == "Ours (2026)"
    monkeypatch.setattr("fedtrip.registry.import_object", lambda *_: pytest.fail("imported"))
    assert package.load_result(tmp_path / "run").label == "Ours (2026)"
    assert list(read_folders([tmp_path / "run"]).histories) == ["Ours (2026)"]


def test_a_run_without_one_stores_none(tmp_path):
    package.run(Experiment(**SMALL, method=FedProx(mu=0.3)), workers=1, out=tmp_path / "run")
    assert "method_label" not in read_summary(tmp_path / "run")
    assert list(read_folders([tmp_path / "run"]).histories) == ["fedprox"]


# ---- as the user says


def test_a_variant_may_be_called_by_its_label_its_name_or_its_method_alone():
    some = variants([Named(), "fedprox"], {"fedprox.mu": [0.1, 0.4]})
    for name in ("Ours (2026)", f"{__name__}:Named", "Named"):
        assert with_labels(some, {name: "X"})[0].label == "X"
    assert [v.label for v in with_labels(some, {"fedprox mu=0.4": "Y"})] == ["Ours (2026)", "fedprox mu=0.1", "Y"]
    assert [v.folder for v in with_labels(some, {"fedprox mu=0.4": "Y"})] == [v.folder for v in some]


def test_both_sides_of_a_label_may_hold_an_equals_sign():
    some = variants(["fedprox", "fedavg"], {"fedprox.mu": [0.1, 0.4]})
    texts = ["fedprox mu=0.1=FedProx, μ=0.1", "fedavg=A=B"]
    assert read_labels(texts, some) == {"fedprox mu=0.1": "FedProx, μ=0.1", "fedavg": "A=B"}


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["fedavg"], "--label 'fedavg' cannot be read; accepted: VARIANT=TEXT, e.g. fedtrip=Ours"),
        (["fedavgg=A"], "--label 'fedavgg' is unknown; did you mean 'fedavg'? accepted: fedavg, fedtrip"),
        (["fedavg=A", "fedavg=B"], "--label fedavg is given more than once; accepted: once"),
        (["fedavg="], "--label fedavg is ''; accepted: a text"),
        (["fedavg=fedtrip"], "--label gives two variants the label 'fedtrip'; accepted: each label once"),
    ],
)
def test_labels_that_are_refused(texts, told, fedtrip, here):
    with pytest.raises(UserError) as refused:
        with_labels(variants(), read_labels(texts, variants()))
    assert told in str(refused.value)
    options = [part for text in texts for part in ("--label", text)]
    ended = fedtrip("compare", "--methods", "fedtrip,fedavg", *options)
    assert ended.code == 2
    assert told in ended.err
    assert not list(here.iterdir())


def test_python_checks_labels_too(here):
    for given, told in (({"fedavg": 3}, "--label fedavg is 3; accepted: a text"), (["a=b"], "labels is ['a=b']")):
        with pytest.raises(UserError) as refused:
            compare(Experiment(**SMALL), methods=["fedavg"], labels=given)
        assert told in str(refused.value)
    assert not list(here.iterdir())


def test_a_label_is_one_line_without_controls():
    (named, _) = with_labels(variants(), {"fedtrip": "a\n\x1b[2Jb"})
    assert named.label == "a \\x1b[2Jb"


@pytest.fixture
def labelled(fedtrip, here):
    evil = 'fedprox mu=0.4=<b>μ & "$x_1$"</b>'
    options = (
        "--methods",
        "fedavg,fedprox",
        "--set",
        "fedprox.mu=0.1,0.4",
        "--trials",
        1,
        "--rounds",
        2,
        "--workers",
        1,
    )
    ended = fedtrip("compare", *options, "--label", "fedavg=Baseline", "--label", evil, "-q", "--out", "cmp")
    assert ended.code == 0, ended.err
    return ended, here / "cmp", options


EXPECTED = ["Baseline", "fedprox mu=0.1", '<b>μ & "$x_1$"</b>']


def test_the_same_labels_everywhere(labelled):
    ended, out, _ = labelled
    rows = json.loads((out / "table.json").read_text())
    assert [row["variant"] for row in rows] == EXPECTED
    assert [row["method"] for row in rows] == ["fedavg", "fedprox", "fedprox"]
    assert all(label in ended.out for label in EXPECTED)
    assert all(label in (out / "table.md").read_text() for label in EXPECTED)
    page = (out / "report.html").read_text(encoding="utf-8")
    (data,) = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert [variant["label"] for variant in data["variants"]] == EXPECTED
    assert "<b>" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert {path.name for path in (out / "runs").iterdir()} == {"fedavg", "fedprox_mu=0.1", "fedprox_mu=0.4"}
    assert list(read_folders([out]).histories) == EXPECTED


def test_other_labels_are_the_same_comparison(labelled, fedtrip):
    _, out, options = labelled
    before = {path: path.stat().st_mtime_ns for path in out.rglob("summary.json")}
    ended = fedtrip("compare", *options, "--label", "fedavg=FedAvg", "-q", "--out", "cmp", "--resume")
    assert ended.code == 0, ended.err
    assert {path: path.stat().st_mtime_ns for path in out.rglob("summary.json")} == before
    assert list(read_folders([out]).histories) == ["FedAvg", "fedprox mu=0.1", "fedprox mu=0.4"]


@pytest.mark.parametrize("labels", ['{"fedavg": 3}', '{"fedavg": "a", "fedprox mu=0.1": "a"}', "[1]"])
def test_a_manifest_with_wrong_labels_is_refused(labelled, labels):
    _, out, _ = labelled
    manifest = json.loads((out / "comparison.json").read_text())
    (out / "comparison.json").write_text(json.dumps({**manifest, "labels": json.loads(labels)}))
    with pytest.raises(UserError, match=r"comparison\.json'"):
        read_folders([out])


def test_figures_take_any_label(tmp_path):
    from fedtrip.figures.convergence import convergence
    from fedtrip.figures.drawing import save_figures

    evil = ["_hidden", "$\\frac{$", "a" * 80, "μ & 100 %"]
    runs = {label: [made_up("fedavg", 0, [0.1, 0.5])] for label in evil}
    drawn = [text.get_text().replace("\n", "") for text in convergence(runs).axes[0].get_legend().get_texts()]
    assert drawn == evil
    save_figures(convergence(runs, "npz:$\\frac{.npz"), tmp_path / "plot.png")
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".pdf", ".svg"}

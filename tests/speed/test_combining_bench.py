"""The benchmark of the rules of combining: it combines as a round does."""

import pytest
import torch
from bench import combining


def test_every_rule_is_measured_on_uploads_that_are_combined(monkeypatch, capsys):
    assert {rule.partition(":")[0] for rule in combining.RULES} == set(combining.COMBINE.names())
    works = combining.works(5, 100)
    found = {rule: work.do() for rule, work in works.items()}
    assert torch.equal(found["clip"], found["centered"])  # about 0 in a first round
    assert len({tuple(vector.tolist()) for vector in found.values()}) == len(found) - 1
    for vector in found.values():
        assert torch.allclose(vector, found["mean"], atol=0.05)
    monkeypatch.setattr("sys.argv", ["combining", "--quick"])
    combining.main()
    printed = capsys.readouterr().out
    assert printed.count("× the mean") == len(found)
    assert "15·|w| counted" in printed  # Krum: 5 + 5·4/2


@pytest.mark.parametrize("rule", combining.RULES)
def test_the_uploads_stay_as_they_are(rule):
    works = combining.works(5, 50)
    first = works[rule].do()
    assert torch.equal(works[rule].do(), first)

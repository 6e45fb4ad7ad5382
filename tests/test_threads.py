"""Runs in threads of one process: one after the other, with the bits they have alone; none inside another."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import fedtrip
from fedtrip import Experiment, UserError

SMALL = {"rounds": 3, "clients": 4, "per_round": 2, "samples_per_client": 20, "batch_size": 5, "lr": 0.1}


def test_runs_in_threads_have_the_bits_they_have_alone(blobs, batch_norm_model):
    """With dropout a run draws from torch's one generator, which a second run would disturb."""

    def digest(seed):
        experiment = Experiment(**{**SMALL, "rounds": 12}, seed=seed)
        return fedtrip.run(experiment, model=batch_norm_model, data=blobs, workers=1).model_sha256

    alone = [digest(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(digest, range(4))) == alone


@pytest.mark.parametrize("inner", ["run", "compare"])
def test_a_run_inside_another_one_is_refused(blobs, tmp_path, inner):
    calls = {
        "run": lambda: fedtrip.run(Experiment(**SMALL), data=blobs, workers=1),
        "compare": lambda: fedtrip.compare(
            Experiment(**SMALL), methods=["fedavg"], trials=1, workers=1, data=blobs, out=tmp_path / "compared"
        ),
    }
    problems = []

    def nested(_record):
        with pytest.raises(UserError, match="inside another run") as refused:
            calls[inner]()
        problems.append(str(refused.value))

    outer = fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, on_round=nested)
    assert len(problems) == 3
    assert "; accepted: " in problems[0]
    assert not (tmp_path / "compared").exists()
    assert outer.model_sha256 == fedtrip.run(Experiment(**SMALL), data=blobs, workers=1).model_sha256


def test_a_run_out_of_a_models_own_code_is_refused(blobs):
    """In training it would take the generator from under the run that calls it."""

    class Nesting(nn.Linear):
        def forward(self, x):
            if self.training:
                fedtrip.run(Experiment(**SMALL), data=blobs, workers=1)
            return super().forward(x)

    with pytest.raises(UserError, match="inside another run"):
        fedtrip.run(Experiment(**SMALL), model=Nesting(6, 3), data=blobs, workers=1)


def test_a_callback_may_wait_for_a_run_in_another_thread(blobs, batch_norm_model):
    """No run holds the generator while it is in a callback, so that nobody waits for ever; no bit changes."""

    def digest(on_round=None):
        given = {"model": batch_norm_model, "data": blobs, "workers": 1, "on_round": on_round}
        return fedtrip.run(Experiment(**SMALL), **given).model_sha256

    inner = []

    def waits(_record):
        other = threading.Thread(target=lambda: inner.append(digest()), daemon=True)
        other.start()
        other.join(30)
        assert not other.is_alive()

    alone = digest()
    assert digest(waits) == alone
    assert inner == [alone] * 3


def test_a_callback_sees_the_callers_threads_and_generator(blobs):
    torch.manual_seed(5)
    expected, threads = torch.rand(3).tolist(), torch.get_num_threads()
    torch.manual_seed(5)
    drawn, seen = [], set()

    def draws(_record):
        drawn.append(torch.rand(1).item())
        seen.add(torch.get_num_threads())

    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, on_round=draws)
    assert drawn == expected
    assert seen == {threads} == {torch.get_num_threads()}


def test_a_report_or_evaluation_is_possible_in_a_callback(blobs, tmp_path):
    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, out=tmp_path / "stored")
    measured = fedtrip.evaluate(tmp_path / "stored", data=blobs)
    seen = []

    def evaluates(_record):
        seen.append(fedtrip.evaluate(tmp_path / "stored", data=blobs))

    fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, on_round=evaluates)
    assert seen == [measured] * 3


def test_a_run_that_fails_lets_the_next_one_go_on(blobs):
    def fails(_record):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fedtrip.run(Experiment(**SMALL), data=blobs, workers=1, on_round=fails)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(fedtrip.run, Experiment(**SMALL), data=blobs, workers=1).result(60).ended is None

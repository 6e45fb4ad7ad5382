"""FedAvg by pfl, as its guide "Fast distributed simulations" says: one process a core, told of each other by variables.

The data are in-memory tensors, evaluation is shared by the processes, and each has one torch thread.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from functools import partial
from typing import Any

from task import BATCH, CLIENTS, LR, MOMENTUM, PER_ROUND, TEST_BATCH, Notes, arguments, load_task, make_model

RANK, ADDRESSES = "PFL_WORKER_RANK", "PFL_WORKER_ADDRESSES"


def work() -> None:
    """One process' part."""
    import numpy as np
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.callback.central_evaluation import CentralEvaluationCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, StringMetricName, Weighted
    from pfl.model.pytorch import PyTorchModel

    class Net(torch.nn.Module):
        """The model with the two functions that pfl asks for."""

        def __init__(self, name: str, seed: int) -> None:
            super().__init__()
            self.layers = make_model(name, seed)

        def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.layers(x), y)

        @torch.no_grad()
        def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
            return {"accuracy": Weighted(int((self.layers(x).argmax(1) == y).sum()), len(y))}

    class Noting(TrainingProcessCallback):
        """Notes what the evaluation before it found; pfl evaluates the initial model in place of the first round's."""

        def after_central_iteration(self, metrics: Metrics, model: Any, *, central_iteration: int) -> Any:
            del model
            found = metrics[StringMetricName("Central val | accuracy")] if central_iteration else None
            notes.note(found.overall_value if found is not None else 0.0)
            return False, Metrics()

    path, name, rounds, seed = arguments()
    torch.set_num_threads(1)
    np.random.seed(seed)
    task, notes = load_task(path), Notes()
    shares = [task.of_client(client) for client in range(CLIENTS)]

    def of_user(user: int) -> PyTorchTensorDataset:
        x, y = shares[user]
        order = torch.randperm(len(y))
        return PyTorchTensorDataset((x[order], y[order]), user_id=str(user))

    users = FederatedDataset(of_user, get_user_sampler("minimize_reuse", list(range(CLIENTS))))
    net = Net(name, seed)
    model = PyTorchModel(net, partial(torch.optim.SGD, momentum=MOMENTUM), torch.optim.SGD(net.parameters(), lr=1.0))
    test = NNEvalHyperParams(local_batch_size=TEST_BATCH)
    evaluation = CentralEvaluationCallback(PyTorchTensorDataset((task.x_test, task.y_test)), model_eval_params=test)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds, evaluation_frequency=rounds + 1, train_cohort_size=PER_ROUND,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=users, val_data=users), model,
        NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=LR),
        model_eval_params=test, callbacks=[evaluation, Noting()], send_metrics_to_platform=False,
    )  # fmt: skip
    torch.distributed.destroy_process_group()  # otherwise its threads may abort the process at its end
    if os.environ[RANK] == "0":
        notes.tell()


def main() -> None:
    """Start a process for each core but one, and be the first."""
    cores = len(os.sched_getaffinity(0))
    with socket.create_server(("localhost", 0)) as free:  # only the first process listens
        os.environ[ADDRESSES] = ",".join([f"localhost:{free.getsockname()[1]}"] * cores)
    others = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, RANK: str(rank)}) for rank in range(1, cores)
    ]
    os.environ[RANK] = "0"
    work()
    for other in others:
        if other.wait():
            raise SystemExit(other.returncode)


if __name__ == "__main__":
    work() if RANK in os.environ else main()

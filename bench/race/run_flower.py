"""FedAvg by Flower's simulation, as its guide "Run simulations" says: one CPU a client, as many at once as there are.

Each process reads the data once and has one torch thread; the server evaluates the global model itself, with all
cores, because the clients wait meanwhile.
"""

from __future__ import annotations

import logging
import os
import random

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from task import CLIENTS, LR, MOMENTUM, PER_ROUND, Notes, accuracy, arguments, load_task, make_model, shuffled_batches
from torch import nn

CORES = len(os.sched_getaffinity(0))
client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """A client's epoch."""
    torch.set_num_threads(1)
    config = message.content["config"]
    x, y = load_task(config["task"]).of_client(int(context.node_config["partition-id"]))
    model = make_model(config["model"], random.randrange(2**32))  # the seed of this epoch's shuffling, too
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    for inputs, labels in shuffled_batches(x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(content=RecordDict(content), reply_to=message)


def main() -> None:
    path, name, rounds, seed = arguments()
    random.seed(seed)
    model, notes, server = make_model(name, seed), Notes(), ServerApp()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        reached = accuracy(model, load_task(path))
        if server_round:  # 0 is the initial model
            notes.note(reached)
        return MetricRecord({"accuracy": reached})

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        del context
        torch.set_num_threads(CORES)
        strategy = FedAvg(
            fraction_train=PER_ROUND / CLIENTS, fraction_evaluate=0.0, min_train_nodes=PER_ROUND,
            min_available_nodes=CLIENTS,
        )  # fmt: skip
        strategy.start(
            grid, ArrayRecord(model.state_dict()), num_rounds=rounds, evaluate_fn=evaluate,
            train_config=ConfigRecord({"task": path, "model": name}),
        )  # fmt: skip

    logging.getLogger("flwr").setLevel(logging.ERROR)
    run_simulation(
        server_app=server, client_app=client_app, num_supernodes=CLIENTS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0},
            "init_args": {"address": "local", "num_cpus": CORES, "log_to_driver": False},
        },
    )  # fmt: skip
    notes.tell()


if __name__ == "__main__":
    import run_flower  # the processes find the client's function by this name, and keep the data that it has read

    run_flower.main()

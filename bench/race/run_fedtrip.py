"""FedAvg by fedtrip."""

from __future__ import annotations

from task import BATCH, LR, MOMENTUM, PER_ROUND, Notes, arguments, load_task, make_model

from fedtrip import Experiment, from_arrays, run


def main() -> None:
    path, model, rounds, seed = arguments()
    task, notes = load_task(path), Notes()
    data = from_arrays(task.x, task.y, task.x_test, task.y_test, client_train=task.client, mean=0.0, std=1.0)
    experiment = Experiment(
        method="fedavg", per_round=PER_ROUND, rounds=rounds, batch_size=BATCH, lr=LR, momentum=MOMENTUM, seed=seed
    )  # fmt: skip
    run(experiment, model=make_model(model, seed), data=data, on_round=lambda record: notes.note(record.accuracy))
    notes.tell()


if __name__ == "__main__":
    main()

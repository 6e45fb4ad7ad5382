"""Which method serves every client, and not only the average one?

Each client keeps a fifth of its samples to test on, and two clients never take part. A tenth of the training set is
held out to choose the round whose model is kept: the test set chooses nothing.
"""

import tempfile
from pathlib import Path

import fedtrip

experiment = fedtrip.Experiment(
    dataset="digits",
    partition="dirichlet:0.1",
    rounds=30,
    client_test=0.2,
    eval_clients="every:10",
    unseen_clients=2,
    validation=0.1,
    patience=10,
    keep_best=True,
)
with tempfile.TemporaryDirectory() as folder:
    compared = fedtrip.compare(experiment, methods=["fedavg", "fedtrip"], trials=2, out=Path(folder) / "runs")
for row in compared.rows:
    of_clients = row.client_scores["global"]
    mean, worst, unseen = (of_clients[name].mean for name in ("mean", "worst_tenth", "unseen"))
    print(f"{row.variant:8} clients' mean {mean:.1%}, worst tenth {worst:.1%}, never seen {unseen:.1%}")

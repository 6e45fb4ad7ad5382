"""How far a disease has gone on after a year, learnt by ten hospitals: numbers as targets instead of classes.

scikit-learn's diabetes data: ten measurements of 442 patients. Two methods are compared by the root mean squared error
on 100 patients that nobody trained with; the target is reached from above.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_diabetes

import fedtrip

x, y = load_diabetes(return_X_y=True)
data = {"x_train": x[:342], "y_train": y[:342], "x_test": x[342:], "y_test": y[342:]}

experiment = fedtrip.Experiment(task="regression", rounds=30, batch_size=10, lr=0.002, target=60)
with tempfile.TemporaryDirectory() as folder:
    compared = fedtrip.compare(
        experiment, data=data, methods=["fedavg", "fedtrip"], trials=2, out=Path(folder) / "runs"
    )
for row in compared.rows:
    print(f"{row.variant:8} final RMSE {row.final_score.mean:.1f}, rounds to 60: {row.rounds.mean:.0f}")

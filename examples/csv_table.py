"""A CSV file with a row for each patient, whose column `hospital` says which client has it.

The length of a stay is predicted: a number, so that the task is regression. Numbers are standardised column by column,
text becomes one input for each of its values.
Run it with: python examples/csv_table.py
"""

import numpy as np
import pandas as pd

import fedtrip


def make_table(path: str) -> None:
    """Patients of four hospitals, some larger than others."""
    random = np.random.default_rng(0)
    count = 1200
    hospital = random.choice(["Aachen", "Bonn", "Celle", "Dachau"], size=count, p=[0.4, 0.3, 0.2, 0.1])
    ward = random.choice(["surgery", "medicine", "children"], size=count)
    age = np.where(ward == "children", random.integers(1, 17, size=count), random.integers(18, 90, size=count))
    severity = random.gamma(2.0, 1.0, size=count)
    days = 1 + 0.05 * age + 2 * severity + np.where(ward == "surgery", 3.0, 0.0) + random.normal(size=count)
    columns = {"hospital": hospital, "ward": ward, "age": age, "severity": severity, "days": days}
    pd.DataFrame(columns).to_csv(path, index=False)


if __name__ == "__main__":
    make_table("stays.csv")
    experiment = fedtrip.Experiment(
        dataset="table:stays.csv?target=days&client=hospital&test=0.25",
        task="regression",
        method="fedavg",
        rounds=30,
        lr=0.01,
    )
    result = fedtrip.run(experiment, workers=1)
    print(f"{result.experiment.clients} hospitals")
    print({name: round(value, 2) for name, value in result.records[-1].scores.items()})

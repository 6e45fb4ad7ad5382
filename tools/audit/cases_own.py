"""Faults of personal models, and of what is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtrip.methods.apfl import Apfl
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.fedbn import FedBn
from fedtrip.methods.lg_fedavg import LgFedAvg
from fedtrip.methods.pfedme import PFedMe
from tools.audit import faults_own
from tools.audit.case import FEDDISCO, PFLLIB, Case, Source

PERSONAL: Mapping[str, Any] = {"client_test": 0.2, "eval_clients": 1}

OWN_MODELS = (
    Case(
        "fedbn-by-name",
        "FedBN: norm layers found by their name",
        (
            Source("med-air/FedBN", "`federated/fed_digits.py`", "df4a9f9"),
            Source(PFLLIB, "`system/flcore/clients/clientbn.py`", "487a29e"),
        ),
        "What stays with a client is what has `bn` in its name. A ResNet's shortcuts have a norm layer without it, and "
        "many networks have no such name at all; those are averaged without a word. The networks of the authors' own "
        "experiments have it everywhere. Here the norm layer of the shortcut has not.",
        FedBn(),
        faults_own.FedBnByName(),
        score="personal",
        settings={**PERSONAL, "partition": "feature:rotation"},
        network="shortcut",
    ),
    Case(
        "apfl-own-steps",
        "APFL: steps that do not know of the mixture",
        (Source(PFLLIB, "`system/flcore/clients/clientapfl.py`", "487a29e"),),
        "v_k takes its steps by the gradient at v_k, not at αv_k + (1 − α)w_k, and at the full rate; at the end of a "
        "round it is overwritten by the mixture. α is fixed at 0.5 on both sides.",
        Apfl(),
        faults_own.ApflOwnSteps(),
        score="personal",
        settings=PERSONAL,
    ),
    Case(
        "pfedme-all-train",
        "pFedMe: all clients train in every round",
        (Source("CharlieDinh/pFedMe", "`FLAlgorithms/servers/serverpFedMe.py`", "7e52b22"),),
        "Every client trains in every round; only whose model is averaged is drawn. Clients' own models have then "
        "trained 2.5 times as often as in a federation where 4 of 10 take part, which is not counted.",
        PFedMe(),
        faults_own.PFedMeAllTrain(),
        score="personal",
        settings=PERSONAL,
        faulty_settings={"per_round": 10},
    ),
)

REPORTED = (
    Case(
        "best-round",
        "Any method: the best round by test accuracy",
        (
            Source(PFLLIB, "`system/flcore/servers/serverscaffold.py` and its like", "2b077c1"),
            FEDDISCO,
        ),
        "What is printed at the end is the highest test accuracy of any round. The run is the same; the number is of "
        "a round that was chosen on the test set.",
        FedAvg(),
        FedAvg(),
        score="best round",
    ),
    Case(
        "best-rounds-of-clients",
        "LG-FedAvg: each client's best round by its test accuracy",
        (Source("pliang279/LG-FedAvg", "`main_lg.py`", "8ee6a68"),),
        "After every round each client keeps its model if its test accuracy is the best so far, and what is reported "
        "is of these models. (The common layers of them are averaged again, which is left out here.)",
        LgFedAvg(),
        LgFedAvg(),
        score="best rounds of clients",
        settings=PERSONAL,
    ),
)

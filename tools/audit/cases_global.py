"""Faults that change the global model: rules of the server, and local steps."""

from __future__ import annotations

from fedtrip.methods.fedadam import FedAdam
from fedtrip.methods.fedavg import FedAvg
from fedtrip.methods.fedavgm import FedAvgM
from fedtrip.methods.feddyn import FedDyn
from fedtrip.methods.fedlesam import FedLesam
from fedtrip.methods.fednova import FedNova
from fedtrip.methods.fedprox import FedProx
from fedtrip.methods.moon import Moon
from fedtrip.methods.scaffold import Scaffold
from tools.audit import faults
from tools.audit.case import FEDDISCO, PFLLIB, Case, Source

SERVER = (
    Case(
        "fedavgm-scaled",
        "FedAvgM: the new difference counts (1 − β)",
        (FEDDISCO, Source("bytedance/FedDecorr", "`approach/fedoptim.py`", "973e4af")),
        "The momentum is u ← βu + (1 − β)(w − w̄), an average, where the method has u ← βu + (w − w̄). The server's "
        "rate stays 1, so that every step is 1 − β of the method's: a tenth at β = 0.9.",
        FedAvgM(),
        faults.FedAvgMScaled(),
    ),
    Case(
        "fedadam-one-late",
        "FedAdam: the bias correction of the next step",
        (
            Source(
                "flwrlabs/flower", "`flwr/serverapp/strategy/fedadam.py`, `flwr/server/strategy/fedadam.py`", "1.41.0"
            ),
        ),
        "m and v start at 0 and are corrected for it as in Adam, η_g·√(1 − β₂^t)/(1 − β₁^t), but with t + 1 although "
        "the first round is 1. The first step is 0.74 of Adam's; the difference is gone after some ten rounds.",
        FedAdam(bias_correction=True),
        faults.FedAdamOneLate(bias_correction=True),
    ),
    Case(
        "fedadam-of-momentum",
        "FedAdam as a baseline: v from m",
        (Source("Divyansh03/FedExP", "`main.py`", "56dfaf9"),),
        "v is the average of m² instead of Δ̄², and in place of a bias correction that fades, m and v are divided by "
        "the constants 0.1 and 0.01 in every round. Where rounds disagree, m is small, v with it, and the step is "
        "long.",
        FedAdam(bias_correction=True),
        faults.FedAdamOfMomentum(bias_correction=True),
    ),
    Case(
        "fednova-mixed",
        "FedNova: momentum and proximal term in one recursion",
        (Source("JYWa/FedNova", "`distoptim/FedNova.py`", "605da42"),),
        "With momentum and μ together the normaliser a_k is first raised as with momentum alone, then shrunk and "
        "raised by 1 as with the proximal term alone. At K = 7, η = 0.1, β = 0.9, μ = 0.5 it is 25.72, where such "
        "steps go 18.31 far. Both rules here have τ_eff from the number of steps, as that code has it.",
        FedNova(mu=0.5, tau_eff="steps"),
        faults.FedNovaMixed(mu=0.5, tau_eff="steps"),
        settings={"partition": "quantity:2", "batch_size": 20},
    ),
    Case(
        "fednova-floor",
        "FedNova: steps counted as ⌊n/B⌋",
        (Source("MediaBrain-SJTU/FedDisco", "`algorithms/fednova.py`", "48288a1"),),
        "The normaliser is the number of whole batches of one epoch, whatever the epochs, the last batch and the "
        "momentum. A client with fewer samples than a batch is divided by zero.",
        FedNova(),
        faults.FedNovaFloor(),
        settings={"partition": "quantity:2", "batch_size": 20},
    ),
)

STEPS = (
    Case(
        "fedprox-without-term",
        "FedProx: no proximal term",
        (
            Source(PFLLIB, "`system/main.py`", "004a405 and ba7f8e3"),
            Source("KarhouTam/FL-bench", "`src/client/fedprox.py`", "6945162", "reported as its issue 165"),
        ),
        "In the first, μ is 0 unless it is given. In the second, the list that should hold the received model holds "
        "the parameters that are being trained, so that w_k − w is 0 in every step. Both train FedAvg and call it "
        "FedProx.",
        FedProx(),
        FedProx(mu=0.0),
        settings={"local_epochs": 5, "momentum": 0.0},
        same_as=FedAvg(),
    ),
    Case(
        "moon-without-term",
        "MOON: no contrast",
        (Source(PFLLIB, "`system/main.py`, `system/flcore/clients/clientmoon.py`", "004a405 and 04240b9"),),
        "MOON's weight is the same option as FedProx's μ, and is 0 unless it is given: FedAvg under the name of MOON.",
        Moon(),
        Moon(mu=0.0),
        settings={"local_epochs": 2, "momentum": 0.0},
        same_as=FedAvg(),
    ),
    Case(
        "feddyn-unsquared",
        "FedDyn: the norm is not squared",
        (Source(PFLLIB, "`system/flcore/clients/clientdyn.py`", "487a29e"),),
        "The penalty is (α/2)‖w_k − w‖, whose gradient has the constant length α/2, in place of (α/2)‖w_k − w‖². What "
        "the client remembers of it is still α(w_k − w): the two no longer belong together. α is 1, the default "
        "there.",
        FedDyn(alpha=1.0),
        faults.FedDynUnsquared(alpha=1.0),
    ),
    Case(
        "feddyn-without-gradient",
        "FedDyn: a regulariser without a gradient",
        (
            Source(
                "SMILELab-FL/FedLab",
                "`fedlab/contrib/algorithm/feddyn.py`, `fedlab/utils/serialization.py`",
                "6a41bb4 and 073e5ca",
            ),
        ),
        "Both terms of the client are computed from a copy of the parameters that has no graph. They change the loss "
        "that is printed, and no step.",
        FedDyn(),
        faults.FedDynWithoutGradient(),
    ),
    Case(
        "feddyn-subtracts-once",
        "FedDyn: the old model is subtracted once",
        (Source("SMILELab-FL/FedLab", "`fedlab/contrib/algorithm/feddyn.py`", "6a41bb4", "reported as its issue 319"),),
        "The sum in the server's h ← h − (α/N)·Σ(w_k − w) is computed as (Σw_k) − w, which takes off one model of |S|. "
        "The others' (|S| − 1)·w/N goes into h, and is added to the model in every round from then on. The formula in "
        "the paper can be read this way.",
        FedDyn(),
        faults.FedDynSubtractsOnce(),
    ),
    Case(
        "feddyn-without-quadratic",
        "FedDyn: the quadratic term is missing",
        (Source("KarhouTam/FL-bench", "`src/client/feddyn.py`", "6945162"),),
        "The step is g − λ_k − αw. The authors' code has these terms in the same place, and the third, αw_k, in the "
        "weight decay of the optimizer, where this file has nothing.",
        FedDyn(),
        faults.FedDynWithoutQuadratic(),
    ),
    Case(
        "scaffold-sign",
        "SCAFFOLD: the correction with the other sign",
        (Source("fedbiomed/fedbiomed", "the torch training plan", "before March 2023", "repaired: its issue 734"),),
        "The correction is added where it is to be subtracted. We read the maintainers' own account of it, not the "
        "code.",
        Scaffold(),
        faults.ScaffoldSign(),
    ),
    Case(
        "scaffold-sends-state",
        "SCAFFOLD: the state is sent instead of its change",
        (
            Source(
                "TL-System/plato",
                "`examples/customized_client_training/scaffold/scaffold_trainer.py`",
                "06a9783",
                "reported as its issue 382, repaired by its pull request 386",
            ),
        ),
        "The client computes the change of its control variate and sends the control variate. The server adds it up "
        "as if it were the change. Beside that (w − w_k) is divided by the number of epochs, not by Kη.",
        Scaffold(),
        faults.ScaffoldSendsState(),
    ),
    Case(
        "scaffold-over-chosen",
        "SCAFFOLD: c moves by a mean over the chosen",
        (Source("Xtra-Computing/NIID-Bench", "`experiments.py`", "90cc8de", "repaired, says its issue 12"),),
        "The server's c is to be the mean of all N clients' c_k, so that it moves by (1/N)·Σ. It moves by (1/|S|)·Σ, "
        "here 2.5 times as far. With all clients in every round the two are the same.",
        Scaffold(),
        faults.ScaffoldOverChosen(),
    ),
    Case(
        "scaffold-times-chosen",
        "SCAFFOLD: c moves |S| times too far",
        (
            Source(
                PFLLIB, "`system/flcore/servers/serverscaffold.py`", "0c46403", "another version, 2b077c1, has it right"
            ),
        ),
        "Each client's change is multiplied by |S|/N and then added, instead of their mean.",
        Scaffold(),
        faults.ScaffoldTimesChosen(),
    ),
    Case(
        "scaffold-random-start",
        "SCAFFOLD: control variates start at random weights",
        (Source("Xtra-Computing/NIID-Bench", "`experiments.py`", "90cc8de", "reported as its issue 8"),),
        "c and all c_k begin as the weights of a freshly made network, and not at 0; c moves by a mean over the "
        "chosen as above. A client that comes late still has that network for its c_k, and c no longer has.",
        Scaffold(),
        faults.ScaffoldRandomStart(),
    ),
    Case(
        "fedlesam-by-number",
        "FedLESAM: one number for a whole tensor",
        (
            Source(
                "MediaBrain-SJTU/FedLESAM",
                "`optimizer/LESAM.py`, `client/fedlesam.py`, `server/FedLESAM.py`",
                "8a9fe90",
            ),
        ),
        "The direction arrives as one flat vector and is indexed by the number of the tensor, so that every tensor is "
        "shifted as a whole by one number, its i-th; the sum of those numbers' sizes takes the place of the norm. And "
        "it is the server's last step, the same for all clients, not what each one missed since its last round.",
        FedLesam(),
        faults.FedLesamByNumber(),
    ),
)

"""Write docs/robustness.md and its figure from docs/evidence/robustness/; see `tools.robustness` for the measurement.

`python -m tools.robustness_page [digits|fmnist ...] [--seconds S]` measures what is missing first; `--pages` does not.
tests/test_robustness_page.py compares the page with what is stored.
"""

from __future__ import annotations

import argparse
import time

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fedtrip.comparison.tables import markdown_row
from fedtrip.figures.drawing import STYLE, save_figure
from fedtrip.files.atomic import write_text
from fedtrip.statistics import estimate, holm, student_interval, student_p
from tools.robustness import (
    ATTACKS,
    BASE_ATTACK,
    BASE_RULE,
    CLIENTS,
    PARTITIONS,
    ROOT,
    RULES,
    SETTINGS,
    SHARE,
    STORED,
    Cell,
    is_complete,
    key,
    measure,
    stored,
)

PAGE = ROOT / "docs" / "robustness.md"
TITLES = {"iid": "alike (iid)", "dirichlet-0.5": "Dirichlet(0.5)", "dirichlet-0.1": "Dirichlet(0.1)"}
SIGNIFICANT = 0.05


class Table:
    """The cells of one data set and partition."""

    def __init__(self, dataset: str, partition: str) -> None:
        self.dataset, self.partition, self.setting = dataset, partition, SETTINGS[dataset]
        self._cells = stored(dataset, partition)
        places = [(rule, attack) for rule in self.setting.rules for attack in self.setting.attacks]
        tested = [place for place in places if place != (BASE_RULE, BASE_ATTACK)]
        adjusted = holm([self._p(*place) for place in tested])
        self._adjusted = dict(zip(tested, adjusted, strict=True))

    def cell(self, rule: str, attack: str) -> Cell:
        """What was measured."""
        return self._cells[key(rule, attack)]

    def accuracy(self, rule: str, attack: str) -> float:
        """Mean final accuracy, in per cent."""
        return 100 * estimate(self.cell(rule, attack)["final_accuracy"]).mean

    def differences(self, rule: str, attack: str) -> list[float]:
        """Final accuracy less that of the mean without an attack, of each seed, in points."""
        base = self.cell(BASE_RULE, BASE_ATTACK)["final_accuracy"]
        return [100 * (a - b) for a, b in zip(self.cell(rule, attack)["final_accuracy"], base, strict=True)]

    def difference(self, rule: str, attack: str) -> float:
        """Its mean."""
        return estimate(self.differences(rule, attack)).mean

    def interval(self, rule: str, attack: str) -> tuple[float, float]:
        """Its 95 % interval."""
        return student_interval(self.differences(rule, attack))

    def is_sure(self, rule: str, attack: str) -> bool:
        """Whether it is told apart from 0 after Holm's correction over the table."""
        return self._adjusted.get((rule, attack), 1.0) < SIGNIFICANT

    def _p(self, rule: str, attack: str) -> float:
        known = estimate(self.differences(rule, attack))
        assert known.std is not None
        p = student_p(known.mean, known.std / len(known.values) ** 0.5, len(known.values) - 1)
        return 0.0 if p is None else p  # the same difference with every seed

    def text(self, rule: str, attack: str) -> str:
        """A cell for people: accuracy, and difference with the half width of its interval."""
        shown = f"{self.accuracy(rule, attack):.1f}"
        if (rule, attack) == (BASE_RULE, BASE_ATTACK):
            return shown
        low, high = self.interval(rule, attack)
        told = f"{signed(self.difference(rule, attack))}±{(high - low) / 2:.1f}"
        return f"{shown} (**{told}**)" if self.is_sure(rule, attack) else f"{shown} ({told})"

    def markdown(self) -> str:
        """Rules by attacks."""
        lines = [["rule", *self.setting.attacks], ["---"] * (1 + len(self.setting.attacks))]
        for rule in self.setting.rules:
            lines.append([f"`{RULES[rule]}`", *(self.text(rule, attack) for attack in self.setting.attacks)])
        return "\n".join(map(markdown_row, lines))

    def success(self, rule: str) -> str:
        """How often a patched image is called the attacker's class, in per cent, with the deviation of the seeds."""
        known = estimate(self.cell(rule, "backdoor")["attack_success"])
        return f"{100 * known.mean:.1f}±{100 * (known.std or 0.0):.1f}"


def signed(points: float) -> str:
    """A difference with its sign."""
    return f"{points:+.1f}".replace("-", "−")


def tables(dataset: str) -> dict[str, Table]:
    """Those of all partitions."""
    return {partition: Table(dataset, partition) for partition in PARTITIONS}


def success_table(dataset: str) -> str:
    """The success of the backdoor under every rule."""
    lines = [["rule", *TITLES.values()], ["---"] * (1 + len(TITLES))]
    of = tables(dataset)
    for rule in SETTINGS[dataset].rules:
        lines.append([f"`{RULES[rule]}`", *(of[partition].success(rule) for partition in PARTITIONS)])
    return "\n".join(map(markdown_row, lines))


def price_table(dataset: str) -> str:
    """What each rule costs where nobody attacks."""
    lines = [["rule", *TITLES.values()], ["---"] * (1 + len(TITLES))]
    of = tables(dataset)
    for rule in SETTINGS[dataset].rules:
        if rule != BASE_RULE:
            cells = []
            for partition in PARTITIONS:
                low, high = of[partition].interval(rule, BASE_ATTACK)
                apart = of[partition].difference(rule, BASE_ATTACK)
                told = f"{signed(apart)} [{signed(low)}, {signed(high)}]"
                cells.append(f"**{told}**" if of[partition].is_sure(rule, BASE_ATTACK) else told)
            lines.append([f"`{RULES[rule]}`", *cells])
    return "\n".join(map(markdown_row, lines))


def draw(dataset: str) -> Figure:
    """Rules by attacks for each partition: accuracy as a number, its difference to the undisturbed mean as colour."""
    setting, of = SETTINGS[dataset], tables(dataset)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        width = 1.2 + 0.62 * len(setting.attacks) * len(of)
        figure = Figure(figsize=(width, 1.3 + 0.3 * len(setting.rules)), layout="constrained")
        for place, (partition, table) in enumerate(of.items()):
            axes = figure.add_subplot(1, len(of), place + 1)
            lost = np.array([[table.difference(rule, a) for a in setting.attacks] for rule in setting.rules])
            axes.imshow(-lost, cmap="OrRd", vmin=0, vmax=60, aspect="auto")
            for row, rule in enumerate(setting.rules):
                for column, attack in enumerate(setting.attacks):
                    shown = f"{table.accuracy(rule, attack):.0f}"
                    colour = "white" if lost[row, column] < -40 else "black"
                    axes.text(column, row, shown, ha="center", va="center", fontsize=8, color=colour)
            axes.set_xticks(range(len(setting.attacks)), setting.attacks, rotation=35, ha="right", fontsize=8)
            names = [RULES[rule] for rule in setting.rules] if place == 0 else []
            axes.set_yticks(range(len(names)), names, fontsize=8)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            axes.set_title(TITLES[partition], loc="left")
        figure.suptitle(
            f"final accuracy in % ({setting.title}, {setting.trials} trials, {SHARE:.0%} of the clients attack); "
            "the darker, the more points below the mean without an attack",
            fontsize=9, x=0.01, ha="left",
        )  # fmt: skip
    return figure


def page() -> str:
    """docs/robustness.md."""
    attacks = ", ".join(f"`{rule}`" for name, rule in ATTACKS.items() if name != BASE_ATTACK)
    text = f"""# Clients that lie

What the [rules of combining](rules.md#combine) withstand, and what they cost. {CLIENTS} clients, all of them in every
round, FedAvg; two of the ten attack, the same two for every rule. Attacks ({attacks}) are
[explained here](rules.md#attack). Rules know how many attack: f = 2 of Krum, a fifth trimmed at each end. c of the
clipping rules is 0.25, about the length of an honest upload in the first rounds on digits where data are alike: it was
read off seed 0, one of the ten, and no other was tried, so that these two rules are not tuned. The strengths of the
attacks were fixed before; five times the opposite was taken because it turns the mean of ten clients round.
`python -m tools.robustness_page` measures it again and writes this page from
[what is stored](evidence/robustness/digits-iid.json).

A cell has the mean final accuracy in per cent and, in brackets, the difference in points to the mean *without* an
attack on the same seeds, with the half width of its 95 % interval. Bold is told apart from 0 after Holm's correction
over the table (p < {SIGNIFICANT}).
"""
    for dataset, setting in SETTINGS.items():
        if not is_complete(dataset):
            continue
        text += f"\n## {setting.title}\n\n{setting.fields['rounds']} rounds, {setting.trials} trials.\n\n"
        text += f"![Final accuracy of every rule against every attack](evidence/robustness/{dataset}.png)\n"
        for partition, table in tables(dataset).items():
            text += f"\n### {setting.title}, {TITLES[partition]}\n\n{table.markdown()}\n"
        text += f"""
### {setting.title}, what robustness costs

Nobody attacks; the difference to the mean in points, with its 95 % interval.

{price_table(dataset)}
"""
        if "backdoor" in setting.attacks:
            text += f"""
### {setting.title}, success of the backdoor

The share, in per cent, of the patched test images of other classes that are called the attackers' class (± deviation
of the trials). A chance hit is a few per cent.

{success_table(dataset)}
"""
    return text + (read_off() if is_complete("digits") else "")


LOOKING = ("median", "trimmed", "geometric", "krum", "multikrum")
"""The rules that compare uploads with each other, and do not only bound them."""


def read_off() -> str:
    """What follows, in words; tests/test_robustness_page.py holds what the numbers alone do not say."""
    alike, some, much = tables("digits").values()
    hostile = [attack for attack in SETTINGS["digits"].attacks if attack != BASE_ATTACK]
    comparing = ", ".join(f"`{RULES[rule]}`" for rule in LOOKING)
    worst = -min(alike.difference(rule, attack) for rule in LOOKING for attack in hostile)
    chance = max(table.accuracy("mean", "signflip") for table in (alike, some, much))

    def lost(table: Table, rule: str, attack: str = BASE_ATTACK) -> str:
        return f"{-table.difference(rule, attack):.1f}"

    def success(table: Table, rule: str) -> str:
        return f"{100 * estimate(table.cell(rule, 'backdoor')['attack_success']).mean:.0f} %"

    recognised = much.accuracy("multikrum", "signflip")
    prices = ", ".join(f"`{RULES[rule]}` {lost(much, rule)}" for rule in LOOKING)
    return f"""
## What follows

On digits; each sentence is read off the tables above.

- **The mean has no defence.** Two of ten that send five times the opposite leave it at {chance:.0f} %, which is chance.
- **Where data are alike, comparing uploads is enough.** {comparing}
  lose at most {worst:.1f} points to any of these attacks, and without one they are not told apart from the mean.
- **Where data differ, robust rules hurt without any attack.** An honest client with unusual data looks like a liar.
  Points lost at Dirichlet(0.1): {prices}.
  At Dirichlet(0.5), `{RULES["krum"]}`, which takes one client's upload, loses {lost(some, "krum")} and
  `{RULES["multikrum"]}` {lost(some, "multikrum")}; the other three are not told apart from the mean there.
- `{RULES["multikrum"]}` leaves out two uploads whether anybody lies or not: at Dirichlet(0.1) it reaches
  {recognised:.1f} % against sign flip, which it recognises, and {much.accuracy("multikrum", "none"):.1f} % without
  an attack.
- **There a subtle attack is worse for them than for the mean.** IPM with ε = 0.1 costs the mean
  {lost(some, "mean", "ipm")} points at Dirichlet(0.5), `{RULES["krum"]}` {lost(some, "krum", "ipm")} and `median`
  {lost(some, "median", "ipm")}. The attackers all send one short vector, which lies between clients that disagree.
- **Clipping bounds an attack and does not remove it.** With `{RULES["clip"]}` and `{RULES["centered"]}` the backdoor
  works on {success(alike, "clip")} and {success(alike, "centered")} of the images even where data are alike.
- **A backdoor is not seen in the accuracy.** With the mean it works on {success(alike, "mean")} of the images, and the
  accuracy is not told apart from that without it. At Dirichlet(0.1) only Krum's rules keep it out:
  {success(much, "krum")} and {success(much, "multikrum")} of the images, against {success(much, "median")} with the
  median.
- No rule is the best against all attacks. The rules knew that two of ten attack; more than they know of was not
  measured.
"""


def write() -> None:
    """The page and its figures."""
    for dataset in SETTINGS:
        if is_complete(dataset):
            save_figure(draw(dataset), STORED / f"{dataset}.png")
    write_text(PAGE, page())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="measures and writes docs/robustness.md")
    parser.add_argument("datasets", nargs="*", default=list(SETTINGS), help=", ".join(SETTINGS))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell after so long")
    parser.add_argument("--pages", action="store_true", help="only write the page")
    asked = parser.parse_args()
    for chosen in () if asked.pages else asked.datasets:
        if chosen not in SETTINGS:
            parser.error(f"data set is '{chosen}'; accepted: {', '.join(SETTINGS)}")
        measure(chosen, time.monotonic() + asked.seconds)
    write()

"""docs/audit.md from the cases and from what was measured: no number of a run is typed in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from tools.audit.case import Case, Source
from tools.audit.cases import SECTIONS
from tools.audit.measuring import COMMON, ROUNDS, SEEDS, WINDOW, Interval, Measured, Numbers, interval
from tools.methods_page import lowered

PAGE = Path(__file__).parent.parent.parent / "docs" / "audit.md"
LONG = 3.0
"""How many times longer a model must be to be told."""

HEAD = """# Faults in other implementations, and what they do

Federated methods are short formulas, and a wrong one trains, too: its loss falls, its tests pass, its curve looks like
any other. While writing the methods we read other implementations of them, and noted where they compute something else
than the method. This page lists what we found in code that many people use, and *measures* what each fault does to a
result: the fault is put into our own method, and both are run on the same seeds.

It is no ranking and no reproach. All of this code is public, which is why it could be read; much of it we learned from.
Several faults were found by users before us and are repaired; where we know, it says so. The versions are those that
we read, and what came after them we have not followed. Our own code had and will have faults as well: [tell
us](../CONTRIBUTING.md#send-a-change). What is merely another choice (the size of a rate, weights by samples or
uniform) is not here but under *Departs from the official code* on [the page of methods](methods.md).

## How it was measured

scikit-learn's digits, the MLP, {clients} clients of which {per_round} take part in a round, `{partition}`, one local
epoch at η = {lr}, {rounds} rounds, seeds {first_seed} to {last_seed}; a case says what it has otherwise. A number is
the accuracy *with* the fault less that of the right rule, in points, on the same seed; behind it the 95 % interval of
the mean over the seeds (Student's t). *Early* is the mean of the first {window} rounds, *late* that of the last
{window}. One of twenty intervals misses the truth by chance.

Read it with care. A small data set and one setting say what *can* happen. Where the interval holds 0, the fault did
nothing that {seeds} seeds could show here, which does not mean that it never does. Where a fault comes out better, it
is another rule, often one with a larger step, that happened to suit this setting: the name of a method promised a
formula, and a comparison under that name is wrong in either direction.

Neither side was tuned. η is the one of two values, tried on one seed, at which the right rules learn within these
rounds; after a first look at three seeds pFedMe got the same one, α in one case of FedDyn became the default of the
code in question, and MOON got two local epochs in place of five, to take less time.

`python -m tools.audit` measures all of it again in some minutes, into [results.json](audit/results.json), and writes
this page; `tools/audit/faults.py` holds the faults.

"""


def page(measured: Mapping[str, Measured]) -> str:
    """The whole page."""
    head = HEAD.format(
        **COMMON,
        rounds=ROUNDS,
        first_seed=SEEDS[0],
        last_seed=SEEDS[-1],
        window=WINDOW,
        seeds=len(SEEDS),
    )
    sections = [
        f"\n## {title}\n" + "".join(f"\n{_section(case, measured[case.name])}" for case in cases)
        for title, cases in SECTIONS.items()
    ]
    return head + _table(measured) + "".join(sections) + OTHERS


def _table(measured: Mapping[str, Measured]) -> str:
    rows = ["| fault | early | late | at the end |", "|---|---:|---:|---|"]
    for cases in SECTIONS.values():
        for case in cases:
            found = measured[case.name]
            early, late = interval(found.differences("first")), interval(found.differences("last"))
            link = f"[{case.title}](#{anchor(case.title)})".replace("|", "\\|")
            rows.append(f"| {link} | {_points(early)} | {_points(late)} | {_verdict(found, late)} |")
    return "\n".join(rows) + "\n"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _points(found: Interval | None) -> str:
    if found is None:
        return "–"
    return f"{_signed(found.mean)} [{_signed(found.low)}, {_signed(found.high)}]"


def _signed(value: float) -> str:
    """With a sign; what rounds to zero has none."""
    shown = f"{value:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", "−")


def _verdict(found: Measured, late: Interval | None) -> str:
    """One word: what the interval says."""
    if found.same_bits:
        return "another method"
    ended = sum(pair.faulty.ended is not None for pair in found.pairs)
    if late is None:
        return "ends early"
    word = "worse" if late.high < 0 else "higher" if late.low > 0 else "not told apart"
    return f"{word}; {ended} of {len(found.pairs)} end early" if ended else word


def _section(case: Case, found: Measured) -> str:
    """One fault."""
    lines = [
        f"### {case.title}",
        "\n".join(f"- {_source(one)}" for one in case.found),
        lowered(case.wrong),
        _result(case, found),
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def _source(source: Source) -> str:
    since = f"; {source.since}" if source.since else ""
    return f"{source.repository}, {source.files}, as of {source.version}{since}"


def _result(case: Case, found: Measured) -> str:
    what = {
        "global": "Test accuracy of the global model",
        "personal": "Mean accuracy of the clients' own models, each on its client's test set",
        "best round": "What is reported of the same runs: the mean of the last rounds, and the best round",
        "best rounds of clients": "What is reported of the same runs: the clients' mean in the last round, and that of "
        "each one's best round",
    }[case.score]
    both = [pair for pair in found.pairs if pair.right.last is not None and pair.faulty.last is not None]
    right, faulty = [pair.right for pair in both], [pair.faulty for pair in both]
    rows = ["| | right | with the fault | difference [95 %] |", "|---|---:|---:|---:|"]
    for word, window in (("early", "first"), ("late", "last")):
        difference = interval(found.differences(window))
        if difference is not None:
            rows.append(f"| {word} | {_mean(right, window)} | {_mean(faulty, window)} | {_points(difference)} |")
    told = [f"{what}{_settings(case)}:", "", *rows]
    remarks = [text for text in (_bits(case, found), _endings(found), _lengths(right, faulty)) if text]
    return "\n".join(told) + ("\n\n" + " ".join(remarks) if remarks else "")


def _settings(case: Case) -> str:
    shown = {name: value for name, value in case.settings.items() if name not in ("client_test", "eval_clients")}
    parts = [f"`{name}` {value}" for name, value in shown.items()]
    parts += ["a network with a shortcut"] if case.network else []
    parts += [f"with the fault `{name}` {value}" for name, value in case.faulty_settings.items()]
    return f" ({', '.join(parts)})" if parts else ""


def _mean(numbers: list[Numbers], window: str) -> str:
    values = [value for one in numbers if (value := getattr(one, window)) is not None]
    return f"{100 * sum(values) / len(values):.1f} %"


def _bits(case: Case, found: Measured) -> str:
    if case.same_as is None:
        return ""
    name = type(case.same_as).__name__
    assert found.same_bits, f"{case.name} is not {name} to the bit"
    return f"With the fault it is {name} to the bit."


def _endings(found: Measured) -> str:
    ends = [pair.faulty.ended for pair in found.pairs if pair.faulty.ended is not None]
    if not ends:
        return ""
    (how,) = set(ends)
    of = f"{len(ends)} of {len(found.pairs)}"
    return f"On {of} seeds the run with the fault ends early: {how}. The numbers are of the other seeds."


def _lengths(right: list[Numbers], faulty: list[Numbers]) -> str:
    """Whether the model has grown, which accuracy may hide."""
    pairs = [(a.length, b.length) for a, b in zip(right, faulty, strict=True) if a.length and b.length]
    ratio = median(b / a for a, b in pairs) if pairs else 1.0
    if ratio < LONG:
        return ""
    return f"At the end the model is {_times(ratio)} times as long (the median of ‖w‖ over ‖w‖ of the right rule)."


def _times(ratio: float) -> str:
    """A factor as one reads it."""
    if ratio < 10**5:
        return f"{ratio:,.0f}"
    digits, _, exponent = f"{ratio:.0e}".partition("e+")
    return f"{digits}·10<sup>{int(exponent)}</sup>"


OTHERS = """
## Found, and not measured

- FedDisco, `disco.py` of MediaBrain-SJTU/FedDisco at 48288a1: if no weight is above 0, a name is used that was never
  given a value, and the run ends. The weights sum to 1 − a + b·|S| before they are cut, so with the defaults a = 0.5
  and b = 0.1 this cannot happen.
- FedAvgM with FedExP's step, `main.py` of Divyansh03/FedExP at 56dfaf9: the momentum is behind a misspelt name and is
  never added. We have no such combination.
- APFL, `fedtorch/comms/utils/eval.py` of MLOPTPSU/FedTorch at 14f4999: the outputs of two models are mixed, not their
  parameters. Such a mixture is not one model, which is what our evaluation asks for.
- FedDyn, `src/server/feddyn.py` of KarhouTam/FL-bench at 075292b: what belongs to a client is renewed by its place in
  the round, not by its number, so that it goes to another client wherever not all take part.
- FedCM, `server/FedCM.py` of MediaBrain-SJTU/FedLESAM at 8a9fe90: the number of local steps is that of the first
  client, for all of them, and not rounded up.
- Robust combining, differential privacy and asynchronous rules, where we know of faults too, are not here yet.
"""

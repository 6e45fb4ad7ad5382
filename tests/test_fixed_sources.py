"""No source draws or computes with functions whose bits follow the CPU or the version of a library."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src/fedtrip"
FREE = ("cli", "comparison", "figures", "flower", "paper", "report", "statistics.py")
"""What shows, judges or carries results, and makes none."""
METHODS_OF_A_GENERATOR = {
    "bytes", "choice", "gamma", "integers", "normal", "permutation", "permuted", "random", "shuffle",
    "standard_exponential", "standard_gamma", "standard_normal", "uniform",
}  # fmt: skip
OF_THE_CPU = {"cos", "exp", "log", "log10", "log1p", "log2", "expm1", "pow", "power", "sin", "tan", "tanh"}


def used(source):
    """What a source calls as `rng.normal(…)`, `math.exp(…)` or `np.random.…`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name, attribute = node.value.id, node.attr
            if name in ("rng", "generator") and attribute in METHODS_OF_A_GENERATOR:
                yield f"{name}.{attribute}"
            if name in ("np", "numpy", "math") and attribute in OF_THE_CPU:
                yield f"{name}.{attribute}"
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Call)
        ):
            called = node.func.value.func
            if getattr(called, "id", "") == "stream" and node.func.attr in METHODS_OF_A_GENERATOR:
                yield f"stream(…).{node.func.attr}"


@pytest.mark.parametrize("text", ["rng.permutation(3)", "x = np.log(y)", "math.exp(2)", "stream(0, 'a').random(5)"])
def test_it_is_found(text):
    assert len(list(used(text))) == 1


def test_no_source_of_a_result_uses_them():
    found = {
        str(path.relative_to(SOURCES)): names
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).parts[0] not in FREE
        if (names := list(used(path.read_text(encoding="utf-8"))))
    }
    assert found == {}

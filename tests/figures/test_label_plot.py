"""Figure 4 is written whole, in the format of its suffix, and draws the counts it is given."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from fedtrip.errors import UserError
from fedtrip.figures import labels as label_plot
from fedtrip.figures.labels import draw_label_distribution


def counts(clients=10, classes=10, seed=0):
    return np.random.default_rng(seed).integers(0, 300, (clients, classes))


@pytest.mark.parametrize("panels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("clients", "classes"), [(10, 10), (50, 10), (10, 47), (50, 47), (1, 1), (100, 2)])
def test_every_panel_has_the_circles_of_its_table_within_the_cells(panels, clients, classes):
    tables = {f"setting {k}": counts(clients, classes, k) + 1 for k in range(panels)}
    figure = label_plot._figure(tables)
    figure.draw_without_rendering()
    drawn = [panel for panel in figure.axes if panel.axison]
    assert [panel.get_title() for panel in drawn] == list(tables)
    largest = max(table.max() for table in tables.values())
    areas = []
    for panel, table in zip(drawn, tables.values(), strict=True):
        (circles,) = panel.collections
        held = [table[int(client), int(label)] for client, label in circles.get_offsets()]
        areas.append(circles.get_sizes() / held)
        assert len(held) == clients * classes
        cell = panel.transData.transform((1, 1)) - panel.transData.transform((0, 0))
        diameter = np.sqrt(areas[-1].max() * largest) * figure.dpi / 72
        assert diameter < 1.1 * cell.min()  # neighbours may touch, but do not cover each other
        assert diameter > min(0.4 * cell.min(), 0.4 * figure.dpi)
    assert np.ptp(np.concatenate(areas)) < 1e-9  # one scale for all panels: area proportional to the count


def test_a_class_that_a_client_does_not_have_gets_no_circle():
    figure = label_plot._figure({"Orthogonal-10": np.diag([5, 0, 7])})
    (circles,) = figure.axes[0].collections
    assert circles.get_offsets().tolist() == [[0, 0], [2, 2]]


@pytest.mark.parametrize(("largest", "shown"), [(600, ["60", "200", "600"]), (5, ["1", "2", "5"]), (1, ["1"])])
def test_the_scale_says_which_area_is_how_many_samples(largest, shown):
    figure = label_plot._figure({"one": np.array([[largest, 0]])})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == shown
    area = legend.legend_handles[-1].get_markersize() ** 2
    assert figure.axes[0].collections[0].get_sizes()[0] == pytest.approx(area)


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg", ".PNG"])
def test_the_suffix_chooses_the_format_and_equal_counts_give_equal_files(tmp_path, suffix):
    paths = [tmp_path / "figures" / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        draw_label_distribution({"Dir-0.5": counts()}, path)
    content = paths[0].read_bytes()
    assert content.startswith({".svg": b"<?xml", ".pdf": b"%PDF"}.get(suffix, b"\x89PNG"))
    assert content == paths[1].read_bytes()
    assert sorted(paths[0].parent.iterdir()) == paths
    if suffix.lower() == ".png":
        pixels = imread(paths[0], format="png")
        assert pixels.std() > 0.02


def test_a_failed_write_leaves_the_old_figure_and_no_remains(tmp_path, monkeypatch):
    path = tmp_path / "figure.png"
    draw_label_distribution({"Dir-0.5": counts()}, path)
    before = path.read_bytes()

    def fail(_figure, file, **_options):
        file.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(label_plot.Figure, "savefig", fail)
    with pytest.raises(OSError, match="no space left"):
        draw_label_distribution({"Dir-0.1": counts(seed=1)}, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("tables", "name", "message"),
    [
        ({"a": counts()}, "figure.jpg", "has the suffix '.jpg'; accepted: .png, .pdf, .svg"),
        ({"a": counts()}, "figure", "has the suffix ''"),
        ({}, "figure.png", "has no settings"),
        ({"a": np.zeros((2, 2))}, "figure.png", "counts of 'a' with shape (2, 2) cannot be drawn"),
        ({"a": counts(), "b": np.ones(3)}, "figure.png", "counts of 'b' with shape (3,)"),
        ({"a": np.array([[1, -1]])}, "figure.png", "without negative numbers"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, tables, name, message):
    with pytest.raises(UserError) as refused:
        draw_label_distribution(tables, tmp_path / name)
    assert message in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_no_global_plotting_state_is_touched():
    check = "import sys, fedtrip.figures.labels; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

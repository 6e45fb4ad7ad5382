"""docs/codecs.md is what `python -m tools.codec_table --page` writes, and its table says what the runs say."""

from __future__ import annotations

import pytest
from tools import codec_page
from tools.codec_table import CODECS, METHODS, PIECES, Run, _seeds, store, stored, variants
from tools.codec_table import QUICK as QUICK_SETTING

from fedtrip.families import UPLOAD_CODEC


def test_the_page_is_written_from_the_classes_and_from_what_is_stored() -> None:
    page = codec_page.PAGE.read_text(encoding="utf-8")
    assert codec_page.with_tables(page) == page


def test_every_codec_is_on_the_page_and_measured() -> None:
    names = set(UPLOAD_CODEC.names())
    assert {text.partition(":")[0] for text in codec_page.SHOWN} == names == set(codec_page.UNBIASED)
    assert {UPLOAD_CODEC.read(codec).name for codec in CODECS.values()} == names
    assert [seed for piece in PIECES for seed in piece] == list(range(10))


def test_what_is_stored_is_whole() -> None:
    """Of each method and codec the same seeds, so that all can be paired."""
    runs = stored()
    seeds = {(run.method, run.codec): [r.seed for r in runs if (r.method, r.codec) == (run.method, run.codec)]
             for run in runs}  # fmt: skip
    assert len({tuple(found) for found in seeds.values()}) <= 1
    assert not runs or set(seeds) == {(method, codec) for method in METHODS for codec in CODECS}


def run(codec: str, seed: int, rounds: int, bytes_up: int, *, reached: bool = True) -> Run:
    return Run("fedtrip", codec, seed, reached, rounds, bytes_up, 1000, 1.0, 0, 0.75, 1.0)


def test_the_table_pairs_by_seed_and_marks_what_meets_the_aim() -> None:
    """A twelfth of the upload in as many rounds; a sixth; a twentieth in more rounds; one that never gets there."""
    runs = []
    for seed, noise in enumerate((0, 2, 1)):
        runs += [run("none", seed, 30 + noise, 12_000_000 + noise), run("eden:1", seed, 31 - noise, 1_000_000)]
        runs += [run("int8", seed, 30 + noise, 2_000_000), run("sign", seed, 50 + noise, 600_000)]
        runs += [run("topk:0.01", seed, 100, 500_000, reached=seed == 0)]
    assert codec_page.verdict(runs, "fedtrip").endswith(" of `none`: `eden:1`.")
    assert codec_page.verdict(runs[1:2], "fedtrip").endswith(": none of them.")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in codec_page.table(runs, "fedtrip").splitlines()
    ]
    assert [row[0] for row in rows[2:]] == ["`sign`", "**`eden:1`**", "`int8`", "`none`", "`topk:0.01`"]
    assert rows[3][2:4] == ["3/3", "1.00"]
    assert rows[3][5].startswith("12.00×")
    assert rows[4][5].startswith("6.00×")
    assert rows[5][5:] == ["–", "–"]
    assert rows[6][1:3] == [">100.0±0.0", "1/3"]
    assert rows[6][5].startswith("<")


def test_runs_are_stored_and_read_again(tmp_path) -> None:  # type: ignore[no-untyped-def]
    runs = [run("none", seed, 30, 5) for seed in range(2)]
    store(runs, tmp_path / "deep" / "runs.json")
    assert stored(tmp_path / "deep" / "runs.json") == runs
    assert stored(tmp_path / "none.json") == []
    assert codec_page.tables([]) == codec_page.NOT_YET


def test_all_variants_have_folders_of_their_own_and_seeds_are_read() -> None:
    made = [variant for _, _, variant in variants(QUICK_SETTING)]
    assert len({variant.folder for variant in made}) == len(made) == len(METHODS) * len(CODECS)
    assert (_seeds("0-2"), _seeds("4")) == ((0, 1, 2), (4,))
    with pytest.raises(SystemExit, match="seeds are 'all'; accepted: numbers such as 0-2"):
        _seeds("all")

"""From the name of a data set to the data set in memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtrip.arguments import checked_arguments
from fedtrip.data.arrays import from_arrays
from fedtrip.data.catalog import known_set
from fedtrip.data.cifar import read_batches
from fedtrip.data.columns import told
from fedtrip.data.dataset import DataSet
from fedtrip.data.digits import read_digits
from fedtrip.data.entry import KnownSet
from fedtrip.data.idx import read_images, read_labels
from fedtrip.data.locate import find_file, find_set, missing_files, search_folders
from fedtrip.data.normalisation import Numbers
from fedtrip.data.npy import read_npy_folder
from fedtrip.data.npz import inputs_of, read_npz
from fedtrip.data.sources import Source, source_of
from fedtrip.errors import UserError
from fedtrip.printable import one_line
from fedtrip.targets import TargetKind

Pair = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@checked_arguments(leave=("mean", "std"))
def load_dataset(
    spec: str,
    data_dir: Path | str | None = None,
    *,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    progress: bool = True,
    targets: TargetKind = "classes",
) -> DataSet:
    """Load a data set of the catalogue by its name, or the user's own files (`fedtrip.data.sources.FORMS`).

    A set of the catalogue is looked for in `data_dir` alone if given; otherwise in the folder that FEDTRIP_DATA
    names, in the user's cache and in the system's folders, and downloaded into the cache if it is in none of them.
    `mean` and `std` replace the set's own normalisation; `progress` shows a download on stderr, and
    what the numbers of classes and clients stand for. `targets` says what those of the user's own files are, as the
    task wants them; the sets of the catalogue and idx files have classes.
    """
    source = source_of(spec)
    if source is not None:
        dataset = _load_source(source, mean, std, targets)
        if progress:
            _tell_names(dataset)
        return dataset
    known = known_set(spec)
    mean, std = known.mean if mean is None else mean, known.std if std is None else std
    if known.format == "digits":
        return from_arrays(*read_digits(), name=known.name, mean=mean, std=std)
    data_dir = None if data_dir is None else Path(data_dir)
    folder = find_set(known, data_dir)
    if folder is None:
        if data_dir is not None:
            raise _not_here(known, data_dir)
        from fedtrip.data.acquire import obtain  # here, because it brings what downloads: most runs need none

        folder = obtain(known, progress=progress)
    return _load_known(known, folder, mean, std)


def _load_source(source: Source, mean: Numbers | None, std: Numbers | None, targets: TargetKind) -> DataSet:
    if source.kind == "idx":
        return _load_idx_folder(source.path, mean, std)
    if source.kind == "table":
        from fedtrip.data.table import load_table  # here, because it brings pandas: most runs need none

        return load_table(source, mean, std, targets)
    if source.kind == "hf":
        from fedtrip.data.hugging_face import load_hugging_face

        return load_hugging_face(source, mean, std, targets)
    arrays = read_npz(source.path) if source.kind == "npz" else read_npy_folder(source.path)
    name = source.path.stem if source.kind == "npz" else source.path.name
    return _of_arrays(arrays, source.path, f"{source.kind}:{name}", mean, std, targets)


def _tell_names(dataset: DataSet) -> None:
    """What the numbers of classes and clients stand for, on stderr."""
    for line in (told("classes", dataset.class_names), told("clients", dataset.client_names)):
        if line is not None:
            print(one_line(line), file=sys.stderr)


def _load_known(known: KnownSet, folder: Path, mean: Numbers | None, std: Numbers | None) -> DataSet:
    train_paths = [_path(folder, file.name) for file in known.train_files]
    test_paths = [_path(folder, file.name) for file in known.test_files]
    if known.format == "cifar":
        train, test = (read_batches(paths, known.label_bytes) for paths in (train_paths, test_paths))
    else:
        train, test = _read_idx_pair(*train_paths), _read_idx_pair(*test_paths)
    arrays: list[NDArray[Any]] = []
    for (images, labels), paths in ((train, train_paths), (test, test_paths)):
        lowest, highest = int(labels.min()), int(labels.max())
        last_label = known.first_label + known.classes - 1
        if lowest < known.first_label or highest > last_label:
            wrong = highest if highest > last_label else lowest
            raise UserError(
                f"{paths[-1].parent}: {known.name} has labels from {known.first_label} to {last_label}, but "
                f"{', '.join(path.name for path in paths if 'images' not in path.name)} has the label {wrong}"
            )
        arrays += [images.swapaxes(2, 3) if known.transposed else images, labels - known.first_label]
    return from_arrays(*arrays, name=known.name, mean=mean, std=std, classes=known.classes)


def _load_idx_folder(folder: Path, mean: Numbers | None, std: Numbers | None) -> DataSet:
    arrays: list[NDArray[Any]] = []
    for part in ("train", "t10k"):
        images = find_file(folder, f"{part}-images-idx3-ubyte") or find_file(folder, f"{part}-images-idx4-ubyte")
        labels = find_file(folder, f"{part}-labels-idx1-ubyte")
        if images is None or labels is None:
            raise UserError(
                f"{folder}: lacks {part}-{'images-idx3' if images is None else 'labels-idx1'}-ubyte[.gz]; "
                "an idx folder holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                "t10k-labels-idx1-ubyte, each plain or as .gz"
            )
        arrays += _read_idx_pair(images, labels)
    try:
        return from_arrays(*arrays, name=f"idx:{folder.name}", mean=mean, std=std)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error


def _of_arrays(
    arrays: Mapping[str, NDArray[Any]],
    path: Path,
    name: str,
    mean: Numbers | None,
    std: Numbers | None,
    targets: TargetKind,
) -> DataSet:
    """The data set of the arrays that lie in a file or folder."""
    try:
        return from_arrays(
            inputs_of(arrays, "x_train"),
            arrays["y_train"],
            inputs_of(arrays, "x_test"),
            arrays["y_test"],
            client_train=arrays.get("client_train"),
            client_test=arrays.get("client_test"),
            name=name,
            mean=mean,
            std=std,
            targets=targets,
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _read_idx_pair(images_path: Path, labels_path: Path) -> Pair:
    images = read_images(images_path)
    return images, read_labels(labels_path, len(images))


def _path(folder: Path, name: str) -> Path:
    path = find_file(folder, name)
    if path is None:  # it was there when the folder was chosen
        raise UserError(f"{folder}: lacks {name}")
    return path


def _not_here(known: KnownSet, data_dir: Path) -> UserError:
    from fedtrip.data.acquire import how_to_get

    (folder,) = search_folders(known, data_dir)
    lacking = ", ".join(missing_files(folder, known.files))
    return UserError(f"data set '{known.name}' is not in {folder} (missing: {lacking}). {how_to_get(known, data_dir)}")

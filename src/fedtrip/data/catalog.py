"""The data sets known by name: what they hold, which files they are made of, and where their publishers keep them."""

from __future__ import annotations

from fedtrip.data.entry import DataArchive, DataFile, Download, KnownSet
from fedtrip.data.sources import FORMS
from fedtrip.errors import unknown_name

_IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_files(
    names: tuple[str, ...],
    train: int,
    test: int,
    md5s: tuple[str | None, ...] = (None,) * 4,
    gz_md5s: tuple[str | None, ...] = (None,) * 4,
) -> tuple[DataFile, ...]:
    """The four files of a 28×28 set: an image file has a header of 16 bytes, a label file one of 8."""
    sizes = (16 + 784 * train, 8 + train, 16 + 784 * test, 8 + test)
    return tuple(DataFile(*fields) for fields in zip(names, sizes, md5s, gz_md5s, strict=True))


def _gz_downloads(
    files: tuple[DataFile, ...], sizes: tuple[int, ...], addresses: tuple[str, ...]
) -> tuple[Download, ...]:
    return tuple(
        Download(f"{file.name}.gz", size, file.gz_md5 or "", tuple(f"{base}{file.name}.gz" for base in addresses))
        for file, size in zip(files, sizes, strict=True)
    )


_MNIST_FILES = _idx_files(
    _IDX_NAMES,
    60_000,
    10_000,
    (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)
_MNIST = KnownSet(
    name="mnist",
    title="MNIST handwritten digits",
    format="idx",
    folder="MNIST/raw",
    train_files=_MNIST_FILES[:2],
    test_files=_MNIST_FILES[2:],
    shape=(1, 28, 28),
    classes=10,
    train=60_000,
    test=10_000,
    samples_per_client=600,
    target=0.90,
    targets={"mlp": 0.87},
    mean=(0.1307,),
    std=(0.3081,),
    downloads=_gz_downloads(
        _MNIST_FILES,
        (9_912_422, 28_881, 1_648_877, 4_542),
        (
            "http://yann.lecun.com/exdb/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
)

_FASHION_FILES = _idx_files(
    _IDX_NAMES,
    60_000,
    10_000,
    (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
_FASHION_MNIST = KnownSet(
    name="fashion-mnist",
    title="Fashion-MNIST articles of clothing",
    format="idx",
    folder="FashionMNIST/raw",
    train_files=_FASHION_FILES[:2],
    test_files=_FASHION_FILES[2:],
    shape=(1, 28, 28),
    classes=10,
    train=60_000,
    test=10_000,
    samples_per_client=1_000,
    target=0.75,
    mean=(0.1307,),  # MNIST's, as in the framework the paper used
    std=(0.3081,),
    downloads=_gz_downloads(
        _FASHION_FILES,
        (26_421_880, 29_515, 4_422_102, 5_148),
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    ),
    # Debian's package dataset-fashion-mnist; it compresses the files anew, so only the unpacked checksums fit.
    system_folders=("/usr/share/datasets/fashion-mnist",),
)

# split: classes, training samples, test samples, first label
_EMNIST_SPLITS = {
    "balanced": (47, 112_800, 18_800, 0),
    "byclass": (62, 697_932, 116_323, 0),
    "bymerge": (47, 697_932, 116_323, 0),
    "letters": (26, 124_800, 20_800, 1),
    "digits": (10, 240_000, 40_000, 0),
    "mnist": (10, 60_000, 10_000, 0),
}


def _emnist_files(split: str) -> tuple[DataFile, ...]:
    _, train, test, _ = _EMNIST_SPLITS[split]
    names = tuple(f"emnist-{split}-{name.replace('t10k', 'test')}" for name in _IDX_NAMES)
    return _idx_files(names, train, test)


# A gzip file is never much larger than what it holds: the unpacked size and a little bounds the compressed one.
_EMNIST_ARCHIVE = DataArchive(
    Download(
        "gzip.zip",
        561_753_746,
        "58c8d27c78d21e728a6bc7b3cc06412e",
        ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
    ),
    "gzip/",
    tuple((f"{file.name}.gz", file.size + 65_536) for split in _EMNIST_SPLITS for file in _emnist_files(split)),
)


def _emnist(split: str) -> KnownSet:
    classes, train, test, first_label = _EMNIST_SPLITS[split]
    files = _emnist_files(split)
    return KnownSet(
        name="emnist" if split == "balanced" else f"emnist:{split}",
        title=f"EMNIST handwritten characters, split '{split}'",
        format="idx",
        folder="EMNIST/raw",
        train_files=files[:2],
        test_files=files[2:],
        shape=(1, 28, 28),
        classes=classes,
        train=train,
        test=test,
        samples_per_client=3_000,
        target=0.62 if split == "balanced" else None,
        mean=(0.5,),
        std=(0.5,),
        first_label=first_label,
        transposed=True,
        archive=_EMNIST_ARCHIVE,
    )


_EMNIST47_FILES = _idx_files(_IDX_NAMES, 87_629, 18_800)
_EMNIST47 = KnownSet(
    name="emnist47",
    title="EMNIST47: EMNIST test images in the 47 classes of 'balanced'",
    format="idx",
    folder="EMNIST47",
    train_files=_EMNIST47_FILES[:2],
    test_files=_EMNIST47_FILES[2:],
    shape=(1, 28, 28),
    classes=47,
    train=87_629,
    test=18_800,
    samples_per_client=3_000,
    target=0.62,
    mean=(0.5,),
    std=(0.5,),
    transposed=True,
)

_CIFAR_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_CIFAR_FILES = tuple(DataFile(name, 10_000 * 3_073, md5) for name, md5 in _CIFAR_MD5.items())
_CIFAR10 = KnownSet(
    name="cifar-10",
    title="CIFAR-10 colour photographs",
    format="cifar",
    folder="cifar-10-batches-bin",
    train_files=_CIFAR_FILES[:5],
    test_files=_CIFAR_FILES[5:],
    shape=(3, 32, 32),
    classes=10,
    train=50_000,
    test=10_000,
    samples_per_client=2_000,
    target=0.50,
    mean=(0.485, 0.456, 0.406),  # ImageNet's, as in the framework the paper used
    std=(0.229, 0.224, 0.225),
    archive=DataArchive(
        Download(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c32a1d4ab5d03f1284b67883e8d87530",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        ),
        "cifar-10-batches-bin/",
        tuple((file.name, file.size) for file in _CIFAR_FILES),
    ),
)

# The publisher's checksum is that of the archive; none is known of its files.
_CIFAR100_FILES = (DataFile("train.bin", 50_000 * 3_074), DataFile("test.bin", 10_000 * 3_074))
_CIFAR100 = KnownSet(
    name="cifar-100",
    title="CIFAR-100 colour photographs, the 100 fine labels",
    format="cifar",
    folder="cifar-100-binary",
    train_files=_CIFAR100_FILES[:1],
    test_files=_CIFAR100_FILES[1:],
    shape=(3, 32, 32),
    classes=100,
    train=50_000,
    test=10_000,
    samples_per_client=2_000,
    label_bytes=2,
    archive=DataArchive(
        Download(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "03b5dce01913d631647c71ecec9e9cb8",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
        ),
        "cifar-100-binary/",
        tuple((file.name, file.size) for file in _CIFAR100_FILES),
    ),
)

_DIGITS = KnownSet(
    name="digits",
    title="Handwritten digits of UCI, as scikit-learn has them (nothing to download)",
    format="digits",
    folder="",
    train_files=(),
    test_files=(),
    shape=(1, 8, 8),
    classes=10,
    train=1_437,
    test=360,
    samples_per_client=400,
    target=0.90,
)

KNOWN_SETS: dict[str, KnownSet] = {
    entry.name: entry
    for entry in (_DIGITS, _MNIST, _FASHION_MNIST, *map(_emnist, _EMNIST_SPLITS), _EMNIST47, _CIFAR10, _CIFAR100)
}


def known_set(name: str) -> KnownSet:
    """The catalogue's entry of a name; `emnist:balanced` is `emnist`. Raises UserError for an unknown name."""
    canonical = "emnist" if name == "emnist:balanced" else name
    if canonical not in KNOWN_SETS:
        raise unknown_name("data set", name, KNOWN_SETS, f"your own as {', '.join(FORMS.values())}")
    return KNOWN_SETS[canonical]

"""Whether an upload can be used: names, shapes, types and numbers, compared with what the method expects."""

from __future__ import annotations

from fedtrip.errors import UserError
from fedtrip.vectors import Vectors, is_finite


def reason_to_refuse(upload: Vectors, expected: Vectors) -> str | None:
    """Why an upload cannot be averaged in, or None if it can."""
    infinite = [name for name in expected if name in upload and not is_finite({name: upload[name]})]
    return difference(upload, expected) or (f"'{infinite[0]}' is not finite" if infinite else None)


def difference(upload: Vectors, expected: Vectors) -> str | None:
    """In what names, shapes or types an upload is not what the method says it is."""
    for name, like in expected.items():
        if name not in upload:
            return f"'{name}' is missing"
        vector = upload[name]
        if vector.shape != like.shape:
            return f"'{name}' has the shape {tuple(vector.shape)} instead of {tuple(like.shape)}"
        if vector.dtype != like.dtype and not (vector.is_floating_point() and like.is_floating_point()):
            return f"'{name}' is of type {vector.dtype} instead of {like.dtype}"
    unknown = [name for name in upload if name not in expected]
    return f"'{unknown[0]}' is not what `expected` of the method names" if unknown else None


def check_it_is_as_said(method: str, client: int, upload: Vectors, expected: Vectors) -> None:
    """Refuse to go on where the method's own code, on this machine, sends something else than it says."""
    if (reason := difference(upload, expected)) is not None:
        said = ", ".join(f"{name} of shape {tuple(like.shape)}" for name, like in expected.items()) or "nothing"
        raise UserError(
            f"method '{method}': what its client {client} sends does not fit: {reason}; accepted: what its `expected` "
            f"names, {said}"
        )

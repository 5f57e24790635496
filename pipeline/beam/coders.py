"""How facts, ranges and decisions become element payloads: JSON arrays in field order, read back by type.

Beam would fall back to pickle for a dataclass, which is neither deterministic nor safe to read from a shared folder.
`pack` and `unpack` handle what `schemas` is made of: dataclasses (and unions of them), named tuples, tuples, frozen
sets, dicts with str keys, str, int, float, bool, bytes, Path and None. Equal values give equal bytes, on every machine.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Hashable
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pipeline.beam.errors import CodingError

T = TypeVar("T")
_Convert = Callable[[Any], Any]
_PLAIN = (str, int, float, bool, type(None), object, Any)


def pack(value: Any) -> bytes:  # noqa: ANN401 - any value of a coded type
    """Canonical bytes of a value. Raises CodingError for a type that cannot be read back."""
    encode = _encoder(cast(Hashable, type(value)))
    plain = value if encode is None else encode(value)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def unpack(kind: type[T], data: bytes) -> T:
    """The value of type `kind` that `pack` wrote. Raises CodingError for bytes that do not fit it."""
    try:
        plain = json.loads(data)
        decode = _decoder(cast(Hashable, kind))
        return cast(T, plain if decode is None else decode(plain))
    except (ValueError, TypeError, KeyError) as e:
        raise CodingError(
            f"cannot read {kind.__name__} from element payload {data[:80]!r}: {e}; "
            "run the same version of faultbeam on the submitting side and on the workers"
        ) from e


def _is_namedtuple(kind: Any) -> bool:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _optional(kind: Any) -> Any:  # noqa: ANN401
    """X for `X | None`; None where `kind` is no such union."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [a for a in get_args(kind) if a is not type(None)]
        if len(rest) == 1:
            return rest[0]
        if all(a in _PLAIN for a in rest):
            return object
        if not all(dataclasses.is_dataclass(a) for a in rest):
            raise CodingError(f"element type {kind} is a union that its JSON cannot tell apart; give it one type")
    return None


def _choices(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    """The dataclasses of `A | B` by name; empty where `kind` is no such union."""
    if get_origin(kind) not in (Union, types.UnionType):
        return {}
    return {a.__name__: a for a in get_args(kind) if dataclasses.is_dataclass(a) and isinstance(a, type)}


@cache
def _encoder(kind: Any) -> _Convert | None:  # noqa: ANN401
    """Value -> what json takes; None where json takes the value as it is."""
    inner = _optional(kind)
    if inner is not None:
        return _lift(_encoder(inner))
    if choices := _choices(kind):
        return _named_out({name: _encoder(a) for name, a in choices.items()})
    if kind in _PLAIN or _is_namedtuple(kind):
        return None
    if kind is bytes:
        return _bytes_out
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_out
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return str
    if dataclasses.is_dataclass(kind):
        return _dataclass_out(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        parts = [_encoder(a) for a in args if a is not Ellipsis]
        if all(p is None for p in parts):
            return None
        return _each(parts[0], list) if args[-1] is Ellipsis else _fixed(parts, list)
    if origin is list:
        return _each(_encoder(args[0]), list)
    if origin in (frozenset, set):
        return sorted
    if origin is dict:
        return _values(_encoder(args[1]))
    raise CodingError(f"element type {kind!r} has no coder; use dataclasses of tuples, str, int, float, bytes")


@cache
def _decoder(kind: Any) -> _Convert | None:  # noqa: ANN401
    inner = _optional(kind)
    if inner is not None:
        return _lift(_decoder(inner))
    if choices := _choices(kind):
        return _named_in({name: _decoder(a) for name, a in choices.items()})
    if kind in _PLAIN:
        return None
    if _is_namedtuple(kind):
        return _spread(kind)
    if kind is bytes:
        return _bytes_in
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return Path
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if dataclasses.is_dataclass(kind):
        return _dataclass_in(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        parts = [_decoder(a) for a in args if a is not Ellipsis]
        if args[-1] is Ellipsis:
            return _each(parts[0], tuple)
        return _fixed(parts, tuple)
    if origin in (list, frozenset, set):
        return _each(_decoder(args[0]), origin)
    if origin is dict:
        return _values(_decoder(args[1]))
    raise CodingError(f"element type {kind!r} has no coder; use dataclasses of tuples, str, int, float, bytes")


def _lift(f: _Convert | None) -> _Convert | None:
    if f is None:
        return None

    def lifted(v: Any) -> Any:  # noqa: ANN401
        return None if v is None else f(v)

    return lifted


def _each(f: _Convert | None, make: type) -> _Convert:
    if f is None:
        return make

    def each(v: Any) -> Any:  # noqa: ANN401
        return make(map(f, v))

    return each


def _fixed(parts: list[_Convert | None], make: type) -> _Convert:
    if all(p is None for p in parts):
        return make

    def fixed(v: Any) -> Any:  # noqa: ANN401
        return make(x if f is None else f(x) for f, x in zip(parts, v, strict=True))

    return fixed


def _values(f: _Convert | None) -> _Convert:
    def values(v: Any) -> Any:  # noqa: ANN401
        return {k: (x if f is None else f(x)) for k, x in sorted(v.items())}

    return values


def _named_out(encoders: dict[str, _Convert | None]) -> _Convert:
    def out(v: Any) -> Any:  # noqa: ANN401
        if v is None:
            return None
        name = type(v).__name__
        encode = encoders[name]
        return [name, v if encode is None else encode(v)]

    return out


def _named_in(decoders: dict[str, _Convert | None]) -> _Convert:
    def read(v: Any) -> Any:  # noqa: ANN401
        if v is None:
            return None
        name, body = v
        decode = decoders[name]
        return body if decode is None else decode(body)

    return read


def _spread(kind: Any) -> _Convert:  # noqa: ANN401
    def spread(v: Any) -> Any:  # noqa: ANN401
        return kind(*v)

    return spread


def _bytes_out(v: bytes) -> str:
    return v.decode("latin-1")


def _bytes_in(v: str) -> bytes:
    return v.encode("latin-1")


def _enum_out(v: Enum) -> Any:  # noqa: ANN401
    return v.value


def _fields(kind: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    hints = get_type_hints(kind)
    return [(f.name, hints[f.name]) for f in dataclasses.fields(kind) if f.init]


def _dataclass_out(kind: Any) -> _Convert:  # noqa: ANN401
    parts = [(name, _encoder(hint)) for name, hint in _fields(kind)]

    def out(v: Any) -> list[Any]:  # noqa: ANN401
        return [getattr(v, name) if f is None else f(getattr(v, name)) for name, f in parts]

    return out


def _dataclass_in(kind: Any) -> _Convert:  # noqa: ANN401
    parts = [_decoder(hint) for _, hint in _fields(kind)]
    n = len(parts)

    def read(v: Any) -> Any:  # noqa: ANN401
        if len(v) != n:
            raise ValueError(f"{len(v)} fields where {kind.__name__} has {n}")
        return kind(*(x if f is None else f(x) for f, x in zip(parts, v, strict=True)))

    return read

"""Finding and loading a trained evidence model: `card.json` (what it is) and `arrays.json` (what it computes with).

It stands in the folder `evidence` of a model's folder; one without that folder is used with the shipped evidence
model. A few dozen numbers: JSON holds them exactly, and no diagnosis has to import numpy for them.
"""

from __future__ import annotations

import hashlib
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from classifiers.engine.evidence import NAMES, VERSION
from classifiers.evidence.scorer import EvidenceRanker
from classifiers.text.shipped import CARD, ModelError

FORMAT = "faultbeam.evidence-model/1"
SHIPPED = Path(__file__).parent / "shipped"
ARRAYS = "arrays.json"
#: Below a model's folder.
FOLDER = "evidence"


def _refuse(path: Path, what: str) -> ModelError:
    return ModelError(
        f"{path}: {what}; train one with faultbeam train --evidence --out DIR, or set model to shipped or none"
    )


def read_card(folder: Path) -> dict[str, Any]:
    """The card of an evidence model. `ModelError` where the folder holds none that this program can use."""
    path = folder / CARD
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refuse(path, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _refuse(path, f"is no JSON ({error})") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        found = card.get("format") if isinstance(card, dict) else type(card).__name__
        raise _refuse(path, f"is not the card of an evidence model: format {found!r}, expected {FORMAT!r}")
    if card.get("features_version") != VERSION:
        raise _refuse(path, f"was trained on features of version {card.get('features_version')!r}, not {VERSION}")
    if not isinstance(card.get("version"), int) or not isinstance(card.get("arrays_sha256"), str):
        raise _refuse(path, "lacks a number in 'version' or a digest in 'arrays_sha256'")
    return card


def load_ranker(folder: Path) -> EvidenceRanker:
    """The model of a folder, checked: digest, names of the features, lengths, finite numbers. `ModelError` else."""
    card = read_card(folder)
    path = folder / ARRAYS
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _refuse(path, f"cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != card["arrays_sha256"]:
        raise _refuse(path, f"is not the file that {CARD} describes (its SHA-256 differs): damaged or exchanged")
    try:
        held = json.loads(data)
        names = tuple(held["names"])
        mean, scale, weights = (tuple(float(x) for x in held[n]) for n in ("mean", "scale", "weights"))
        bias = float(held["bias"])
    except (ValueError, KeyError, TypeError) as error:
        raise _refuse(path, f"holds no arrays of an evidence model ({type(error).__name__}: {error})") from error
    if names != NAMES:
        odd = sorted(set(names) ^ set(NAMES))[:1] or ["their order"]
        raise _refuse(path, f"its features are not those of this program: {odd[0]}")
    if not len(mean) == len(scale) == len(weights) == len(NAMES):
        sizes = f"{len(mean)}, {len(scale)} and {len(weights)} numbers for {len(NAMES)} features"
        raise _refuse(path, f"shapes do not fit: {sizes}")
    if not all(map(math.isfinite, (*mean, *scale, *weights, bias))) or min(scale) <= 0:
        raise _refuse(path, "holds a number that is not finite, or a scale that is not above 0")
    return EvidenceRanker(str(card["version"]), mean, scale, weights, bias)


def folder_of(model: str) -> Path:
    """Where the evidence model of a setting `model` stands."""
    own = Path(model) / FOLDER
    return SHIPPED if model == "shipped" or not own.is_dir() else own


@cache
def ranker_for(model: str) -> EvidenceRanker | None:
    """The evidence model that a setting names: `shipped`, `none`, or a model's folder. Read once a process."""
    return None if model == "none" else load_ranker(folder_of(model))

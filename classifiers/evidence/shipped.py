"""Finding and loading a trained evidence model: `card.json` (what it is) and `arrays.json` (what it computes with).

It stands in the folder `evidence` of a model's folder; one without that folder is used with the shipped evidence
model. A few dozen numbers: JSON holds them exactly, and no diagnosis has to import numpy for them.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

from classifiers.cards import ModelKind
from classifiers.engine.evidence import NAMES, VERSION
from classifiers.evidence.scorer import EvidenceRanker

FORMAT = "faultbeam.evidence-model/1"
SHIPPED = Path(__file__).parent / "shipped"
ARRAYS = "arrays.json"
#: Below a model's folder.
FOLDER = "evidence"
KIND = ModelKind("an evidence model", FORMAT, VERSION, "faultbeam train --evidence", ARRAYS)
read_card = KIND.read_card


def load_ranker(folder: Path) -> EvidenceRanker:
    """The model of a folder, checked: digest, names of the features, lengths, finite numbers. `ModelError` else."""
    card = KIND.read_card(folder)
    path = folder / ARRAYS
    data = KIND.read_arrays(folder, card)
    try:
        held = json.loads(data)
        names = tuple(held["names"])
        mean, scale, weights = (tuple(float(x) for x in held[n]) for n in ("mean", "scale", "weights"))
        bias = float(held["bias"])
    except (ValueError, KeyError, TypeError) as error:
        raise KIND.refuse(path, f"holds no arrays of an evidence model ({type(error).__name__}: {error})") from error
    if names != NAMES:
        odd = sorted(set(names) ^ set(NAMES))[:1] or ["their order"]
        raise KIND.refuse(path, f"its features are not those of this program: {odd[0]}")
    if not len(mean) == len(scale) == len(weights) == len(NAMES):
        sizes = f"{len(mean)}, {len(scale)} and {len(weights)} numbers for {len(NAMES)} features"
        raise KIND.refuse(path, f"shapes do not fit: {sizes}")
    if not all(map(math.isfinite, (*mean, *scale, *weights, bias))) or min(scale) <= 0:
        raise KIND.refuse(path, "holds a number that is not finite, or a scale that is not above 0")
    return EvidenceRanker(str(card["version"]), mean, scale, weights, bias)


def folder_of(model: str) -> Path:
    """Where the evidence model of a setting `model` stands."""
    own = Path(model) / FOLDER
    return SHIPPED if model == "shipped" or not own.is_dir() else own


@cache
def ranker_for(model: str) -> EvidenceRanker | None:
    """The evidence model that a setting names: `shipped`, `none`, or a model's folder. Read once a process."""
    return None if model == "none" else load_ranker(folder_of(model))

"""Finding and loading a trained text model: `card.json` (what it is) and `arrays.npz` (what it computes with).

A model is a folder. The shipped one is package data; `faultbeam train --out` writes others. `scorer_for` reads only
the card; the arrays, and numpy, are loaded when the model is first asked. Arrays are read with `allow_pickle=False`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from classifiers.api import Opinion, Scorer
from classifiers.cards import ModelKind
from classifiers.text.features import VERSION

if TYPE_CHECKING:
    from classifiers.text.scorer import TextScorer

FORMAT = "faultbeam.text-model/1"
SHIPPED = Path(__file__).parent / "shipped"
ARRAYS, PIPELINE = "arrays.npz", "pipeline.skops"
KIND = ModelKind("a text model", FORMAT, VERSION, "faultbeam train", ARRAYS)
read_card = KIND.read_card


def load_scorer(folder: Path) -> TextScorer:
    """The model of a folder, checked: digest of the arrays, their shapes, the classes. `ModelError` otherwise."""
    import io
    import zipfile

    import numpy as np

    from classifiers.text.scorer import TextScorer
    from schemas.taxonomy import components

    card = KIND.read_card(folder)
    path = folder / ARRAYS
    data = KIND.read_arrays(folder, card)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            names = bytes(arrays["vocabulary"].tobytes()).decode("utf-8").split("\n")
            pairs = bytes(arrays["classes"].tobytes()).decode("utf-8").split("\n")
            idf, weights, bias = (arrays[n].astype(np.float64) for n in ("idf", "weights", "bias"))
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise KIND.refuse(path, f"holds no arrays of a text model ({error})") from error
    classes = tuple((component, cause) for component, _, cause in (pair.partition("\t") for pair in pairs))
    if idf.shape != (len(names),) or weights.shape != (len(classes), len(names)) or bias.shape != (len(classes),):
        sizes = f"{len(names)} features, {len(classes)} classes, weights {weights.shape}"
        raise KIND.refuse(path, f"shapes do not fit: {sizes}")
    foreign = sorted({component for component, _ in classes} - components().keys())
    if foreign:
        raise KIND.refuse(path, f"answers {foreign[0]!r}, which is no component of the taxonomy")
    return TextScorer(
        version=str(card["version"]),
        vocabulary={name: i for i, name in enumerate(names)},
        classes=classes,
        idf=idf,
        weights=weights,
        bias=bias,
        prior=_prior(card),
    )


def _prior(card: Mapping[str, Any]) -> dict[str, float]:
    prior = card.get("prior")
    return {str(k): float(v) for k, v in prior.items()} if isinstance(prior, dict) else {}


class LazyScorer:
    """A model whose arrays are loaded when it is first asked. The card is read at once, so its errors come early."""

    def __init__(self, folder: Path) -> None:
        card = KIND.read_card(folder)
        self.version = str(card["version"])
        self.prior: Mapping[str, float] = _prior(card)
        self._folder = folder

    @cached_property
    def _scorer(self) -> TextScorer:
        return load_scorer(self._folder)

    def opinion(self, texts: Sequence[str]) -> Opinion | None:
        """See `classifiers.api.Scorer`."""
        return self._scorer.opinion(texts) if texts else None


@cache
def scorer_for(model: str) -> Scorer | None:
    """The model that a setting names: `shipped`, `none`, or a folder. Read once a process."""
    if model == "none":
        return None
    return LazyScorer(SHIPPED if model == "shipped" else Path(model))

"""Writing a trained model: the scikit-learn pipeline by skops, its arrays, and the card that says what it is.

Never pickle. All three files are written beside the target first and then moved there, card last, so that a crash
leaves either the old model or a folder whose card does not fit, which loading refuses.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import skops
import skops.io

from classifiers.cards import CARD, ModelError
from classifiers.models.text_model import Trained
from classifiers.text.features import VERSION
from classifiers.text.shipped import ARRAYS, FORMAT, PIPELINE

#: What a pipeline file may hold beside what skops trusts by itself.
TRUSTED = ("classifiers.text.features.features",)


def arrays_of(trained: Trained) -> bytes:
    """The model as an `.npz` without any object in it."""
    tfidf, linear = trained.pipeline.named_steps["tfidf"], trained.pipeline.named_steps["linear"]
    names = sorted(tfidf.vocabulary_, key=tfidf.vocabulary_.__getitem__)
    weights, bias = np.asarray(linear.coef_), np.asarray(linear.intercept_)
    if weights.shape[0] == 1:  # two classes: one row of log odds
        weights, bias = np.vstack([np.zeros_like(weights), weights]), np.array([0.0, bias[0]])
    out = io.BytesIO()
    np.savez_compressed(
        out,
        vocabulary=np.frombuffer("\n".join(names).encode(), dtype=np.uint8),
        classes=np.frombuffer("\n".join("\t".join(c) for c in trained.classes).encode(), dtype=np.uint8),
        idf=np.asarray(tfidf.idf_, dtype=np.float64),
        weights=weights.astype(np.float32),
        bias=bias.astype(np.float32),
    )
    return out.getvalue()


def card_of(trained: Trained, arrays: bytes, version: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """What the model is. `more`: digest and sizes of the data, prior, seed."""
    scores = asdict(trained.scores)
    scores["accuracy"] = round(trained.scores.accuracy, 4)
    return {
        "format": FORMAT,
        "version": version,
        "features_version": VERSION,
        "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
        "temperature": round(trained.temperature, 4),
        "classes": [list(c) for c in trained.classes],
        "held_out_templates": scores,
        "libraries": libraries(),
        **more,
    }


def write_model(folder: Path, trained: Trained, version: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """Write the three files of a text model; returns its card."""
    arrays = arrays_of(trained)
    card = card_of(trained, arrays, version, more)
    write_files(folder, trained.pipeline, ARRAYS, arrays, card)
    return card


def write_files(folder: Path, pipeline: object, name: str, arrays: bytes, card: Mapping[str, Any]) -> None:
    """Write pipeline, arrays (under `name`) and card of any model; see the module."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as scratch:
        new = Path(scratch)
        skops.io.dump(pipeline, new / PIPELINE, compression=zipfile.ZIP_DEFLATED)
        (new / name).write_bytes(arrays)
        (new / CARD).write_text(json.dumps(card, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for written in (PIPELINE, name, CARD):
            os.replace(new / written, folder / written)  # noqa: PTH105 - replaces on every platform


def libraries() -> dict[str, str]:
    """Versions of what a model was made with."""
    return {"scikit-learn": sklearn.__version__, "numpy": np.__version__, "skops": skops.__version__}


def load_pipeline(folder: Path, what: str = "a text model") -> Any:  # noqa: ANN401 - scikit-learn ships no types
    """The scikit-learn pipeline of a model. `ModelError` for a file that is damaged or holds anything unexpected."""
    path = folder / PIPELINE
    try:
        foreign = sorted(set(skops.io.get_untrusted_types(file=path)) - set(TRUSTED))
        if not foreign:
            return skops.io.load(path, trusted=list(TRUSTED))
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        ImportError,
        AttributeError,
        RuntimeError,
    ) as error:
        msg = f"{path}: is no pipeline of {what} ({type(error).__name__}: {error}); faultbeam train writes one"
        raise ModelError(msg) from error
    msg = f"{path}: holds {foreign[0]}, which {what} does not need; it was not loaded"
    raise ModelError(msg)

"""The card in the folder of a trained model: `card.json` says what the model is and names the digest of its arrays.

Both kinds of models, of texts and of evidence, are read through here, so that a damaged or foreign folder is told in
the same words whichever it is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifiers.errors import ClassifierError

CARD = "card.json"


class ModelError(ClassifierError):
    """A model folder cannot be used; the text names the file, what is wrong with it, and what to do."""


@dataclass(frozen=True, slots=True)
class ModelKind:
    """What a program expects of a folder. name: with its article; format, features: of the card; train: the command."""

    name: str
    format: str
    features: int
    train: str
    arrays: str

    def refuse(self, path: Path, what: str) -> ModelError:
        """The error for a file of such a folder."""
        return ModelError(f"{path}: {what}; train one with {self.train} --out DIR, or set model to shipped or none")

    def read_card(self, folder: Path) -> dict[str, Any]:
        """The card of a model. `ModelError` where the folder holds none that this program can use."""
        path = folder / CARD
        try:
            card = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self.refuse(path, f"cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise self.refuse(path, f"is no JSON ({error})") from error
        if not isinstance(card, dict) or card.get("format") != self.format:
            found = card.get("format") if isinstance(card, dict) else type(card).__name__
            raise self.refuse(path, f"is not the card of {self.name}: format {found!r}, expected {self.format!r}")
        if card.get("features_version") != self.features:
            said = card.get("features_version")
            raise self.refuse(path, f"was trained on features of version {said!r}, not {self.features}")
        if not isinstance(card.get("version"), int) or not isinstance(card.get("arrays_sha256"), str):
            raise self.refuse(path, "lacks a number in 'version' or a digest in 'arrays_sha256'")
        return card

    def read_arrays(self, folder: Path, card: dict[str, Any]) -> bytes:
        """The bytes of the arrays that this card describes. `ModelError` where they are missing or others."""
        path = folder / self.arrays
        try:
            data = path.read_bytes()
        except OSError as error:
            raise self.refuse(path, f"cannot be read ({error.strerror})") from error
        if hashlib.sha256(data).hexdigest() != card["arrays_sha256"]:
            raise self.refuse(
                path, f"is not the file that {CARD} describes (its SHA-256 differs): damaged or exchanged"
            )
        return data

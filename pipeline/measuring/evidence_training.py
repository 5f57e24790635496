"""`train --evidence`: the evidence model from cases and simulated clusters, and whether it becomes the one in use.

A new model becomes current only when it is not worse than the current one: on the same samples, each scored by a
model that saw neither its cluster nor its template, its log loss is not larger; and, where cases are given to check,
it is not worse on those. Else the old files stay and the result says why.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from classifiers.cards import CARD
from classifiers.evidence.shipped import FOLDER, SHIPPED, load_ranker, read_card
from classifiers.text.shipped import SHIPPED as TEXT
from classifiers.text.shipped import scorer_for
from pipeline.measuring.evidence_samples import EvidenceSample, case_samples, cluster_samples
from pipeline.measuring.training import TrainingResult, worse_on_cases
from schemas.settings import Settings

if TYPE_CHECKING:
    from classifiers.evidence.scorer import EvidenceRanker

#: How much larger the held-out log loss may be.
TOLERANCE = 0.01


def train_evidence_model(
    folder: Path,
    settings: Settings,
    cases: Sequence[Path],
    *,
    check: Path | None = None,
    seed: int = 1,
    clusters: bool = True,
) -> TrainingResult:
    """Train, compare with the model in `folder`/evidence (else with the shipped one), take the new one if not worse.

    cases: folders of labelled incidents. clusters: simulate the training clusters too. Raises EvidenceError,
    EvaluationError, ModelError (the current model is damaged); then nothing was written.
    """
    from classifiers.models.evidence_model import train_evidence, write_evidence

    target = folder / FOLDER
    base = target if (target / CARD).exists() else SHIPPED
    old = read_card(base)
    current = load_ranker(base)
    scorer = scorer_for(settings.model)
    samples: list[EvidenceSample] = []
    for one in cases:
        samples += case_samples(one, settings, scorer)
    if clusters:
        samples += cluster_samples(seed, settings, scorer)
    trained = train_evidence(samples, seed)
    version = int(old["version"]) + 1
    known = len({s.name for s in samples if not s.simulated})
    more = {"seed": seed, "cases": known, "clusters": clusters}
    with tempfile.TemporaryDirectory(prefix="model-") as scratch:
        new = Path(scratch) / FOLDER
        card = write_evidence(new, trained, version, more)
        same = card["arrays_sha256"] == old["arrays_sha256"]
        worse = [] if same else _worse(trained.log_loss, current, samples, old)
        if check is not None and not worse and not same:
            as_new, as_old = _as_model(Path(scratch) / "new", new), _as_model(Path(scratch) / "old", base)
            worse += worse_on_cases(check, settings, as_new, as_old)
    if same and base == target:
        reason = "the new model equals the current one, which stays as it is"
        return TrainingResult(True, (reason,), int(old["version"]), old, target, known, 0)
    if worse:
        return TrainingResult(False, tuple(worse), int(old["version"]), card, target, known, 0)
    write_evidence(target, trained, version, more)
    reason = f"not worse than evidence model {old['version']} on held-out subjects"
    return TrainingResult(True, (reason + (f" and on {check}" if check else ""),), version, card, target, known, 0)


def log_loss(ranker: EvidenceRanker, samples: Sequence[EvidenceSample]) -> float:
    """Mean -log of the probability given to what each row is, weighed as in training."""
    from classifiers.models.evidence_model import subject_weights

    total = weight = 0.0
    for sample, w in zip(samples, subject_weights(samples), strict=True):
        for row, ok in zip(sample.rows, sample.right, strict=True):
            p = ranker.alone(row.values)
            total -= float(w) * math.log((p if ok else 1 - p) + 1e-12)
            weight += float(w)
    return total / weight


def _worse(new: float, current: EvidenceRanker, samples: Sequence[EvidenceSample], old: Mapping[str, Any]) -> list[str]:
    """Why the new model is worse. The bar is the larger of the current one's loss on the subjects that were held out
    when it was trained, and its loss on these (it may have been trained on them)."""
    bar = max(float(old["held_out_log_loss"]), log_loss(current, samples))
    if new <= bar + TOLERANCE:
        return []
    return [f"log loss {new:.3f} on held-out subjects; the current model has {bar:.3f}"]


def _as_model(folder: Path, evidence: Path) -> Path:
    """A model's folder with the shipped text model and this evidence model in it."""
    shutil.copytree(TEXT, folder)
    shutil.copytree(evidence, folder / FOLDER)
    return folder

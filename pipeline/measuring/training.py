"""`train`: the text model from the corpus and people's labels, and whether it becomes the one in use.

A new model becomes current only when it is not worse than the current one on lines that neither has seen (templates
of the corpus, each scored by a model that was trained without it) and, where cases are given, on those. Else the old
files stay as they are and the result says why. Labels add lines to train on; they are never scored.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from classifiers.cards import CARD
from classifiers.corpus import Sample, corpus_digest, load_corpus
from classifiers.engine.arbiter import excerpt
from classifiers.priors import shares
from classifiers.text.shipped import SHIPPED, read_card
from pipeline.errors import PipelineError
from schemas.settings import Settings

if TYPE_CHECKING:
    from pipeline.measuring.scoring import Report
    from sql.store import Store

#: How much smaller the share of right answers on held-out templates may be: one template in two hundred.
TOLERANCE = 0.005
#: Lines taken from one labelled incident: the first ones say most.
LINES_A_LABEL = 3


class TrainingError(PipelineError):
    """Labels or cases cannot be used for training; nothing was changed."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What came of it. current: whether the new model is now the one in `folder`. reasons: why, in words."""

    current: bool
    reasons: tuple[str, ...]
    version: int
    card: Mapping[str, Any]
    folder: Path
    labels: int
    label_lines: int


def label_samples(store: Store, cluster: str | None, causes: Mapping[str, str]) -> tuple[list[Sample], list[str]]:
    """Lines of labelled incidents, and the component of every label (for the prior).

    causes: component -> cause to file its lines under. `TrainingError` for a label whose incident is not there.
    """
    wanted = store.current_labels(cluster)
    decisions = {d.incident_id: d for d in store.list_decisions(cluster)}
    lost = sorted(set(wanted) - decisions.keys())
    if lost:
        msg = (
            f"label of incident {lost[0]}: the warehouse holds no such incident ({len(lost)} of {len(wanted)} labels); "
            "ingest its logs again, or train with --cluster NAME of the cluster that has it"
        )
        raise TrainingError(msg)
    out = []
    for incident, component in sorted(wanted.items()):
        lines = excerpt([item.event for item in decisions[incident].evidence])[:LINES_A_LABEL]
        cause = causes.get(component, "labelled")
        out += [Sample(e.text, component, cause, "label", f"label of {incident}") for e in lines]
    return out, sorted(wanted.values())


def train_model(
    folder: Path,
    settings: Settings,
    *,
    store: Store | None = None,
    cluster: str | None = None,
    check: Path | None = None,
    corpus: Path | None = None,
    seed: int = 1,
) -> TrainingResult:
    """Train, compare with the model in `folder` (else with the shipped one), and take the new one if it is not worse.

    Raises CorpusError, TrainingError, ModelError (the current model is damaged), EvaluationError; then nothing was
    written.
    """
    from classifiers.models.files import arrays_of, write_model
    from classifiers.models.text_model import train

    base = folder if (folder / CARD).exists() else SHIPPED
    old = read_card(base)
    samples = list(load_corpus(corpus) if corpus is not None else load_corpus())
    causes: dict[str, str] = {}
    for sample in samples:
        causes.setdefault(sample.component, sample.cause)
    labelled, said = label_samples(store, cluster, causes) if store is not None else ([], [])
    trained = train([*samples, *labelled], seed)
    version = int(old["version"]) + 1
    more = {
        "data": {
            "digest": corpus_digest([*samples, *labelled]),
            "corpus_digest": corpus_digest(samples),
            "samples": len(samples),
            "label_lines": len(labelled),
        },
        "prior": shares(said),
        "seed": seed,
    }
    with tempfile.TemporaryDirectory(prefix="model-") as scratch:
        card = write_model(Path(scratch), trained, version, more)
        same = card["arrays_sha256"] == old["arrays_sha256"] and card["prior"] == old.get("prior")
        worse = _worse_on_templates(card, old)
        if check is not None and not worse and not same:
            worse += worse_on_cases(check, settings, Path(scratch), base)
    if same and base == folder:
        reason = "the new model equals the current one, which stays as it is"
        return TrainingResult(True, (reason,), int(old["version"]), old, folder, len(said), len(labelled))
    if worse:
        return TrainingResult(False, tuple(worse), int(old["version"]), card, folder, len(said), len(labelled))
    card = write_model(folder, trained, version, more)
    assert card["arrays_sha256"] == hashlib.sha256(arrays_of(trained)).hexdigest()
    reason = f"not worse than model {old['version']} on held-out templates" + (f" and on {check}" if check else "")
    return TrainingResult(True, (reason,), version, card, folder, len(said), len(labelled))


def _worse_on_templates(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    a, b = new["held_out_templates"], old["held_out_templates"]
    if a["accuracy"] < b["accuracy"] - TOLERANCE:
        return [
            f"right on {a['right']} of {a['n']} held-out templates ({a['accuracy']:.3f}); "
            f"the current model on {b['right']} of {b['n']} ({b['accuracy']:.3f})"
        ]
    return []


def worse_on_cases(folder: Path, settings: Settings, new: Path, base: Path) -> list[str]:
    """In what the model in `new` is worse than that in `base` on a folder of cases; empty if in nothing."""
    from pipeline.measuring.evaluate import default_diagnose, evaluate

    def run(model: Path) -> Report:
        chosen = settings.model_copy(update={"model": str(model)})
        return evaluate(folder, default_diagnose(**chosen.model_dump()))

    a, b = run(new), run(base)
    why = []
    if a.acceptable.k < b.acceptable.k:
        why.append(f"acceptable on {a.acceptable.k} of {a.cases} cases, the current model on {b.acceptable.k}")
    if a.false_alarms > b.false_alarms:
        why.append(f"{a.false_alarms} false alarms on the cases, the current model {b.false_alarms}")
    if a.wrong_sure > b.wrong_sure:
        why.append(f"{a.wrong_sure} wrong and sure answers on the cases, the current model {b.wrong_sure}")
    return why

"""The corpus that the text model is trained on: what it must hold, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from classifiers.corpus import COLUMNS, ROOT, CorpusError, Sample, check_corpus, corpus_digest, load_corpus
from schemas.taxonomy import components


def test_it_is_large_and_covers_every_component_and_family():
    samples = load_corpus()
    assert len({s.group for s in samples}) >= 300
    counts = Counter(s.component for s in samples)
    assert set(counts) == set(components())
    assert min(counts.values()) >= 8
    families = {s.family for s in samples}
    assert families >= {"cuda", "nccl", "storage", "slurm", "python", "data", "kernel", "k8s"}
    assert families == {p.stem for p in ROOT.glob("*.tsv")}


def test_every_template_stands_once():
    counts = Counter(s.group for s in load_corpus())
    assert [group for group, n in counts.items() if n > 1] == []


def test_every_line_names_where_its_facts_come_from():
    assert all(len(s.source) > 10 for s in load_corpus())


def test_no_line_is_taken_from_the_known_incidents(shared_cases: Path):
    """A line whose own numbers stand in a case too was copied; fixed wordings of a program are equal everywhere."""
    texts = {s.text for s in load_corpus() if len(s.text.split()) >= 4 and len(re.findall(r"\d+", s.text)) >= 2}
    assert len(texts) > 150
    told = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(shared_cases.rglob("*"))
        if path.is_file() and path.suffix not in {".gz", ".json"}
    )
    assert [t for t in texts if t in told] == []


def _write(folder: Path, *rows: str, head: str = "\t".join(COLUMNS)) -> Path:
    (folder / "own.tsv").write_text("\n".join([head, *rows]) + "\n")
    return folder


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a b c\tgpu.hbm\tecc\tcuda\tbook"], "at least two components"),
        ([], "at least two components"),
        (["a b c\tgpu.hbmm\tecc\tcuda\tbook"], "own.tsv:2: unknown component 'gpu.hbmm'"),
        (["a b c\tgpu.hbm\tecc\tcuda"], "own.tsv:2: needs 5 filled columns"),
        (["a b c\tgpu.hbm\tecc\tcuda\t "], "own.tsv:2: needs 5 filled columns"),
        (
            ["link 7 is down\tgpu.nvlink\tx\tcuda\tbook", "link 8 is down\tnet.nic\ty\tnccl\tbook"],
            "one template for two components",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_refused(tmp_path: Path, rows: list[str], said: str):
    with pytest.raises(CorpusError) as caught:
        load_corpus(_write(tmp_path, *rows))
    assert said in str(caught.value)


def test_other_columns_are_refused(tmp_path: Path):
    with pytest.raises(CorpusError, match=r"own\.tsv:1: columns are text, label"):
        load_corpus(_write(tmp_path, head="text\tlabel"))


def test_a_label_may_contradict_the_corpus():
    first = Sample("link 7 is down", "gpu.nvlink", "x", "cuda", "book")
    check_corpus([first, Sample("link 9 is down", "net.nic", "y", "label", "label of 1")])


def test_the_digest_names_the_contents_not_the_order():
    samples = load_corpus()
    assert corpus_digest(samples) == corpus_digest(tuple(reversed(samples)))
    assert corpus_digest(samples) != corpus_digest(samples[1:])

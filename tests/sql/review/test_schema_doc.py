"""docs/schema.md is what the models say."""

from __future__ import annotations

from pathlib import Path

from sql.review.schema_doc import schema_markdown


def test_schema_document_is_in_step(repository: Path) -> None:
    written = (repository / "docs" / "schema.md").read_text(encoding="utf-8")
    assert written == schema_markdown(), "run: python -m sql.review.schema_doc > docs/schema.md"

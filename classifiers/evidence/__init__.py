"""Ranking candidate causes by the shape of their evidence: scoring from arrays, loading. Never imports scikit-learn.

The features are in `classifiers.engine.evidence`, training in `classifiers.models.evidence_model`. The way in is
`shipped.ranker_for`.
"""

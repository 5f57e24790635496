"""Tests of sql.review."""

"""Benchmarks. Each prints ratios from interleaved runs; absolute figures depend on the machine."""

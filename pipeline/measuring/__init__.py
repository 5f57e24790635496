"""Measuring and learning: cases, scores, ablations, training, suggested rules."""

"""From inputs to facts: ranges read block by block, hit lines framed and matched, hits folded."""

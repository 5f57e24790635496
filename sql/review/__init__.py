"""The weekly review: plain functions for its metrics, and what reads them from the warehouse.

Modules: `rates` (MTTF, failure rates, projection, shares), `overheads` (ETTR, checkpoints, lost work), `diurnal` (day
effect), `hours` (failures by hour of the day), `offenders` (hosts), `swings` (power), `training` (attempts into tasks),
`rows` (what is read), `document` (the JSON), `markdown`, `html` and `charts` (what people read).
A metric that cannot be computed is None, never 0 and never an error. numpy and scipy are imported when a function runs.
"""

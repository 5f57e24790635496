"""Rules that other packages bring, by entry points of the group `faultbeam.rules`.

An entry point names a package whose folder looks like this one: `rules/` with one file a rule, and `rules.lock.json`
that `faultbeam rules lock --knowledge FOLDER` writes. The numbers of all plugins' locks are added to that of the
built-in knowledge, so that a plugin that changes raises the ruleset number as the knowledge does.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points
from pathlib import Path

from classifiers.errors import RuleError

GROUP = "faultbeam.rules"


def plugin_roots() -> list[tuple[str, Path]]:
    """(name of the plugin, folder of its knowledge), sorted. The packages are found, not imported."""
    found = []
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        name = f"{point.name} = {point.value}"
        try:
            spec = importlib.util.find_spec(point.value)
        except (ImportError, ValueError) as err:
            raise RuleError(name, f"entry point of {GROUP}: {err}; repair or uninstall it") from err
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        root = next((Path(place) for place in places if (Path(place) / "rules").is_dir()), None)
        if root is None:
            raise RuleError(name, f"entry point of {GROUP}: no package with a folder rules/; see CONTRIBUTING")
        found.append((name, root))
    return found

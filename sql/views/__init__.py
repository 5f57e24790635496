"""Views as people query them: `incidents` and `review_*`, one file each, made again by every `db upgrade`.

A file starts with comment lines that say what the view answers. `-- needs: other_view` puts it after that view.
Macros of `sql.dialect` serve both databases.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from sql.dialect import expand

_NEEDS = re.compile(r"^-- needs: *(.+)$", re.MULTILINE)


@cache
def views() -> dict[str, str]:
    """Bodies of all views by name, each after the views that it needs."""
    bodies = {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
        for entry in sorted(files("sql.views").iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".sql")
    }
    ordered: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in ordered:
            for line in _NEEDS.findall(bodies[name]):
                for other in line.split(","):
                    add(other.strip())
            ordered[name] = bodies[name]

    for name in bodies:
        add(name)
    return ordered


def view_statements(dialect: str) -> list[str]:
    """CREATE VIEW statements in order, for `sqlalchemy.text`."""
    return [f"CREATE VIEW {name} AS\n{expand(body, dialect)}" for name, body in views().items()]

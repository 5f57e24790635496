"""Named mixes of causes."""

from __future__ import annotations

import pytest

from classifiers.priors import PriorError, mixes, prior_of, shares
from schemas.taxonomy import components


def test_the_mixes_are_those_of_the_papers():
    llama3, later = mixes()["llama3"], mixes()["fthsdp"]
    assert llama3["gpu.device"] == pytest.approx(148 / 419, abs=1e-6)
    assert later["gpu.hbm"] == pytest.approx(155 / 678, abs=1e-6)
    assert later["host.os"] == pytest.approx(77 / 678, abs=1e-6)
    for mix in mixes().values():
        assert sum(mix.values()) == pytest.approx(1, abs=1e-4)
        assert set(mix) <= set(components())


def test_none_prefers_nothing_and_labels_are_counted():
    assert prior_of("none", {"gpu.hbm": 1.0}) == {}
    counted = shares(["gpu.hbm", "software.bug", "gpu.hbm", "gpu.hbm"])
    assert counted == {"gpu.hbm": 0.75, "software.bug": 0.25}
    assert prior_of("labels", counted) == counted
    assert shares([]) == {}


def test_an_unknown_mix_is_named_with_those_that_exist():
    with pytest.raises(PriorError, match=r"'llama4' is not known; there are none, labels, fthsdp, llama3"):
        prior_of("llama4", {})

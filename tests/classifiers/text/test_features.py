"""What the text model sees of a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifiers.text.features import features, masked


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("[rank3]: OSError: [Errno 5] bad: '/lustre/a/b.pt'", "[rank12]: OSError: [Errno 5] bad: '/lustre/c/d/e.pt'"),
        ("Tried to allocate 2.00 GiB on GPU 3", "Tried to allocate 384.50 GiB on GPU 7"),
        ("peer 10.1.2.3<4567> hung at 0x7ffe12", "peer 10.9.8.7<1234> hung at 0xdeadbeef"),
        ("NVRM: Xid (PCI:0000:4d:00): 79, lost", "NVRM: Xid (PCI:0000:1a:00): 79, lost"),
        ("2031-01-02 03:04:05,678 worker 5 gave up", "2032-11-12 13:14:15 worker 17 gave up"),
    ],
)
def test_two_prints_of_one_message_look_the_same(a: str, b: str):
    assert masked(a) == masked(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("OSError: [Errno 28] failed", "OSError: [Errno 5] failed"),
        ("failed: '/lustre/x'", "failed: '/tmp/x'"),
        ("429 Client Error", "404 Client Error"),
        ("exit code 137", "exit code 1"),
        ("Xid (PCI:0000:4d:00): 79, x", "Xid (PCI:0000:4d:00): 48, x"),
    ],
)
def test_what_tells_failures_apart_is_kept(a: str, b: str):
    assert masked(a) != masked(b)


def test_compound_names_are_also_their_parts():
    assert {"w:hfhubhttperror", "w:hub", "w:http", "w:error"} <= set(features("HfHubHTTPError"))


@given(st.text(max_size=800))
def test_any_text_has_features_and_equal_texts_equal_ones(text: str):
    assert features(text) == features(text)
    assert all(f[:2] in ("w:", "b:", "c:") for f in features(text))

"""Training progress: how each framework prints a step, which series is the training, steps behind an offset."""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats.base import Frame
from pipeline.formats.joblog import FORMATS
from pipeline.runs.progress import MAX_POINTS, main_series, read_cell, steps_after
from pipeline.runs.progress_forms import read_line
from schemas.facts import NO_STAMP, ProgressFact, Stamp, merge_progress
from tests.pipeline.formats.framing import Before

NOBODY = Before([], 0)


def frame(line: str) -> Frame:
    return FORMATS[0].frame(line, NOBODY)


def numbered(lines: list[str], start: int = 0) -> list[tuple[int, str]]:
    out, at = [], start
    for line in lines:
        out.append((at, line))
        at += len(line.encode()) + 1
    return out


def read(*lines: str, cell: int = 0, start: int = 0) -> ProgressFact | None:
    return read_cell("s", cell, numbered(list(lines), start), frame)


@pytest.mark.parametrize(
    ("line", "step", "seconds"),
    [
        (" iteration    43650/  311541 | consumed samples:     44697600 | elapsed time per iteration (ms): 25627.7 | lm loss: 2.6E+00 |", 43650, 25.6277),
        ("[default7]: iteration    42774/  115311 | elapsed time per iteration (s): 105.16 | lm loss: 2.1E+00 |", 42774, 105.16),
        ("2031-02-18T10:24:04Z 2031-02-18 10:24:04,099 - root - INFO - Step 36760: train loss 0.0454", 36760, None),
        ("[step 3] loss=0.503 0.8s", 3, 0.8),
        ("                 epoch=14 step=88120 loss=0.0931", 88120, None),
        ("Epoch: [0][10/5005]\tTime 0.712 (1.044)\tLoss 6.9871 (7.0412)", 10, 0.712),
        ("Epoch: [2]  [ 10/100]  eta: 0:01:02    time: 0.1127  data: 0.01  max mem: 3", 210, 0.1127),
        ("2031-10-03 10:02:11,908 - mmseg - INFO - Iter [3780/40000]\tlr: 5.5e-05, eta: 9:11:02, time: 0.911, data_time: 0.01, loss: 0.41", 3780, 0.911),
        ("12/09 06:49:23 - mmengine - INFO - Epoch(train) [2][100/500]  lr: 1e-3  time: 0.5  loss: 1.2", 1100, 0.5),
        (" 12%|█▏        | 2899/25120 [2:12:20<16:50:19,  2.70s/it]", 2899, 2.70),
        ("Epoch 12:  4%|█▌        | 36/812 [11:09<1:02:11,  5.92s/it, loss=1.99, v_num=41]", 12 * 812 + 36, 5.92),
        ("100%|██| 7/9 [00:01<00:01,  4.00it/s]", 7, 0.25),
        ("ep 31 train, step 1188, ctc 0.412, ce 0.371, num_seqs 24, mem_usage:cuda 8.1GB, 0.402 sec/step", 1188, 0.402),
        ("INFO:tensorflow:loss = 0.8211, step = 71200 (32.1 sec)", 71200, None),
        (" 8801: 1.890000, 1.950000 avg loss, 0.002610 rate, 4.11 seconds, 563264 images, 20.1 hours left", 8801, 4.11),
        ("[titan] 2026-03-03 04:12:33 - root - INFO - step: 10  loss:  2.3100  memory: 40.1GiB(50%)  tps: 3,100", 10, None),
        ("Training epoch 0, iteration 9/99 | lr: 1e-5 | global_batch_size: 8 | global_step: 9 | reduced_train_loss: 2.3 | train_step_timing in s: 1.2", 9, 1.2),
        ("{'loss': 1.8, 'learning_rate': 9.1e-06, 'epoch': 0.3}", 300, None),
        ("DLL 2024-05-01 13:23:45.123456 - Iteration 12 | train_acc : 1.1 % | iteration_time : 123.4 ms | train_loss : 6.9 ", 12, 0.1234),
        ("[HCTR][13:23:45.123][INFO][RK0][main]: Iter: 1000 Time(100 iters): 0.5s Loss: 0.1 lr:24", 1000, 0.005),
        ("2022-10-13 18:50:22,239 maskrcnn_benchmark.trainer INFO: eta: 1:00:00  iter: 20  time: 0.2723 (0.3)  data: 0.01 (0.1)  loss: 0.99 (1.1)", 20, 0.2723),
        ("iter 100: loss 2.3100, time 312.10ms, mfu 41.20%", 100, 0.3121),
        ('{"epoch": 2, "loss": "2.31", "num_updates": "31250", "lr": "0.0001"}', 31250, None),
        ("[2026-03-03 04:12:33,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-5], mom=[(0.9, 0.95)]", 10, None),
        ("[batch=30/1000]: Train loss: 2.3", 30, None),
        ("120/500 [====>.........................] - ETA: 1:20 - loss: 0.3100", 120, None),
        ("completed step: 12, seconds: 1.234, TFLOP/s/device: 410.1, Tokens/s/device: 3100, loss: 10.8", 12, 1.234),
        (':::MLLOG {"namespace": "", "time_ms": 1714569853718, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": {"train_step_timing in s": 0.55}, "metadata": {"file": "a.py", "lineno": 1, "step": 1536}}', 1536, 0.55),
        (':::MLLOG {"namespace": "", "time_ms": 1714569853718, "event_type": "INTERVAL_END", "key": "epoch_stop", "value": null, "metadata": {"file": "a.py", "lineno": 1, "epoch_num": 3}}', 3, None),
        ("20310423-11:20:12.801 AReX INFO: Epoch 1/1 Step 120/120 Train step 120/120 done.", 120, None),
        ("2031-08-29 11:02:40,120 INFO Epoch 31 TRAIN Batch 500 loss 0.113", 500, None),
        ("2031-03-21 15:19:55,011 DEBUG TRAIN Batch 1/400 loss 46.80 loss_att 45.24 loss_ctc 57.14 lr 0.00007464 rank 5", 400, None),
        ("2031-08-29 11:02:58,004 INFO Epoch 79 CV info cv_loss 0.08", 79, None),
    ],
)  # fmt: skip
def test_how_frameworks_print_a_step(line: str, step: int, seconds: float | None) -> None:
    found = read_line(line)
    assert found is not None
    assert found[2] == step
    assert found[3] == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "line",
    [
        "Downloading shards:  40%|████      | 12/30 [00:10<00:20,  1.2s/it]",
        "Map:  40%|████      | 50000/100000 [00:10<00:20, 5000.00 examples/s]",
        " 40%|████      | 12.0M/30.0M [00:10<00:20, 1.2MB/s]",
        "Validation DataLoader 0:  40%|████      | 12/30 [00:10<00:20,  1.2s/it]",
        "Test:  [ 10/100]  eta: 0:00:10  model_time: 0.1  time: 0.2",
        "    max_steps: 3500",
        "    will be used during training (effective maximum steps = 3500) - ",
        "warmup steps: 2000",
        "saving checkpoint at step 300",
        "resumed from snapshot epoch 11",
        "loading model from /x/step 3",
        "  File \"a.py\", line 12, in <module>",
        "time (ms)",
        "2031-11-20 03:40:11 | INFO | ms.checkpoint | 940/992 shards present on all hosts",
        ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "x", "key": "tracked_stats", "value": {"validation_step_timing in s": 1}, "metadata": {"step": 3}}',
        ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "x", "key": "eval_stop", "value": 3, "metadata": {"epoch_num": 3}}',
        ':::MLLOG {"namespace": "", "time_ms": 1, "ev',
        "",
    ],
)  # fmt: skip
def test_what_is_no_training_step(line: str) -> None:
    assert read_line(line) is None


def test_a_cell_keeps_first_and_last_step_and_the_median_speed() -> None:
    fact = read(
        *(f"2026-03-03 04:00:{i:02d},000 - INFO - Step {10 * i}: train loss 1.0" for i in range(1, 6)),
        cell=3,
        start=3 * 65536,
    )
    assert fact is not None
    assert (fact.first_step, fact.last_step, fact.n, fact.cell, fact.series) == (10, 50, 5, 3, "step/step")
    assert fact.step_s == pytest.approx(0.1)
    assert fact.first_offset == 3 * 65536
    assert (fact.last.us - fact.first.us, fact.last.kind) == (4_000_000, "local")
    assert [step for _, step, _ in fact.points] == [10, 20, 30, 40, 50]


def test_the_training_series_wins_over_other_bars() -> None:
    fact = read(
        "Loading checkpoint shards: 100%|███| 8/8 [00:10<00:00,  1.2s/it]",
        "  0%|          | 1/2000 [00:03<1:40:00,  3.00s/it]",
        "{'loss': 1.8, 'learning_rate': 9.1e-06, 'epoch': 0.3}",
        "  0%|          | 2/2000 [00:06<1:40:00,  3.00s/it]",
        " 50%|█████     | 10/20 [00:03<00:03,  3.00it/s]",
        "  0%|          | 3/2000 [00:09<1:40:00,  3.00s/it]",
    )
    assert fact is not None
    assert (fact.series, fact.first_step, fact.last_step, fact.step_s) == ("step/tqdm:2000", 1, 3, 3.0)
    only_eval = read(" 50%|█████     | 10/20 [00:03<00:03,  3.00it/s]", cell=1, start=65536)
    assert only_eval is not None
    assert main_series([fact, only_eval]) == [fact]


def test_bare_numbers_count_only_if_they_count() -> None:
    counted = read("WS: 3, RANK: 1", *map(str, range(11)))
    assert counted is not None
    assert (counted.series, counted.last_step) == ("step/bare", 10)
    assert read("7", "19", "3", "120") is None
    assert read("7") is None


def test_a_step_line_takes_the_stamp_of_the_line_above() -> None:
    fact = read(
        "2031-10-12 22:00:58.102 INFO     zfit .../trainer.py:  311",
        "                  epoch=14 step=88120 loss=0.0931",
    )
    assert fact is not None
    assert fact.last == Stamp("local", 1949608858102000, borrowed=True)


def test_speed_of_tensorflow_is_a_line_of_its_own() -> None:
    fact = read("INFO:tensorflow:global_step/sec: 4", "INFO:tensorflow:loss = 0.8211, step = 71200 (32.1 sec)")
    assert fact is not None
    assert fact.step_s == 0.25


def test_points_are_bounded_and_keep_the_last() -> None:
    fact = read(*(f"step {i} loss 1.0" for i in range(1000)))
    assert fact is not None
    assert len(fact.points) <= MAX_POINTS
    assert [p[1] for p in fact.points[-8:]] == list(range(992, 1000))
    assert fact.points[0][1] == 0


# --- steps behind an offset


def steps(*pairs: tuple[int, int]) -> ProgressFact:
    """A fact with steps at offsets, without stamps."""
    (o1, s1), (o2, s2) = pairs[0], pairs[-1]
    return ProgressFact("s", o1 // 65536, s1, NO_STAMP, o1, s2, NO_STAMP, o2, len(pairs), None, "step/step",
                        tuple((o, s, -1) for o, s in pairs))  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "until", "expected"),
    [
        (-1, None, 3),  # the first printed step may have been all but done: 1, then 2 more
        (150, None, 2),
        (250, None, 1),
        (300, None, 0),
        (999, None, 0),
        (-1, 250, 2),
    ],
)
def test_steps_after(offset: int, until: int | None, expected: int) -> None:
    assert steps_after([steps((100, 1), (200, 2), (300, 3))], offset, until) == expected


def test_steps_printed_every_tenth_count_in_full_behind_the_first() -> None:
    assert steps_after([steps((100, 10), (200, 20), (300, 30), (400, 40))], 150) == 21


def test_lagging_ranks_are_no_progress_but_a_new_epoch_is() -> None:
    lagging = [steps((100, 500), (200, 499), (300, 500), (400, 498))]
    assert steps_after(lagging, 150) == 0
    epoch = [steps((100, 5000), (200, 1), (300, 2))]
    assert steps_after(epoch, 150) == 2


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 500)), min_size=1, max_size=30, unique_by=lambda p: p[0]),
    st.integers(-1, 10_000),
)
def test_steps_after_is_bounded_and_ignores_the_order_of_facts(pairs: list[tuple[int, int]], offset: int) -> None:
    pairs = sorted(pairs)
    facts = [steps(p) for p in pairs]
    found = steps_after(facts, offset)
    assert found == steps_after(facts[::-1], offset)
    assert found >= 0
    if not any(o > offset for o, _ in pairs):
        assert found == 0
    if all(a <= b for (_, a), (_, b) in pairwise(pairs)):
        assert found <= max(s for _, s in pairs) + 1


@given(st.lists(st.text(alphabet="0123456789 :=|%[]/stepouchlrain.-{}'\"", max_size=80), max_size=20))
def test_no_cell_is_too_odd(lines: list[str]) -> None:
    fact = read(*lines)
    if fact is not None:
        assert fact.first_offset <= fact.last_offset
        assert merge_progress(fact, fact) == fact


def test_real_benchmark_logs_show_their_last_step(shared_data: Path) -> None:
    """The steps of a whole real log rise to the number that its own end names."""
    path = next((shared_data / "mlperf_runs" / "aborted").glob("*unet3d*_04.log.gz"))
    data = gzip.decompress(path.read_bytes())
    cells: dict[int, list[tuple[int, str]]] = {}
    at = 0
    for line in data.split(b"\n"):
        cells.setdefault(at // 65536, []).append((at, line.decode("utf-8", "replace")))
        at += len(line) + 1
    facts = [f for c, lines in cells.items() if (f := read_cell("s", c, lines, frame))]
    main = main_series(facts)
    assert main[-1].last_step == 1000
    assert main[-1].last.kind == "utc"
    assert steps_after(facts, 0) > 900


def test_where_the_step_falls_back_both_sides_are_kept() -> None:
    """A restart inside a cell must not hide how far the attempt before it came."""
    numbers = [*range(1, 101), *range(61, 161)]
    fact = read(*(f"step {i} loss 1.0" for i in numbers))
    assert fact is not None
    kept = [p[1] for p in fact.points]
    assert len(kept) <= MAX_POINTS
    assert kept[kept.index(61, 20) - 1] == 100

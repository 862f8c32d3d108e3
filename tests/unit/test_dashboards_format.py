import math
from datetime import timedelta

import pytest

from dashboards import format
from tests.unit.dashboards_factories import NOW


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.2345, "1.234 s"),
        (61.5, "61.50 s"),
        (0.1243, "124.3 ms"),
        (0.00123456, "1.235 ms"),
        (0.0000123456, "12.35 µs"),
        (0.0, "0 s"),
    ],
)
def test_seconds_get_the_unit_of_their_size(value, text):
    assert format.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(812, "812 B"), (2048, "2.000 KiB"), (1.5 * 2**30, "1.500 GiB"), (-64 * 2**20, "-64.00 MiB")],
)
def test_bytes_are_binary(value, text):
    assert format.num_bytes(value) == text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("step_time_s", 0.1243, "124.3 ms"),
        ("peak_rss_bytes", 2**30, "1.000 GiB"),
        ("tokens_per_s", 65904.8, "65,905 tokens/s"),
        ("loss", 2.34567, "2.346 nats"),
        ("foreign_cpu_ratio", 0.0351, "3.5 %"),
        ("gpu_sm_clock_hz", 1.98e9, "1.980 GHz"),
        ("gpu_sm_clock_hz", 810e6, "810.0 MHz"),
        ("gpu_sm_clock_hz", 0.0, "0 Hz"),
        ("gpu_power_w", 412.34, "412.3 W"),
        ("gpu_temperature_c", 71.0, "71 °C"),
        ("gpu_ecc_errors", 1.0, "1 error"),
        ("gpu_ecc_errors", 0.0, "0 errors"),
        ("step_time_s", None, "–"),
    ],
)
def test_a_metric_is_shown_in_a_unit_for_people(metric, value, text):
    assert format.metric_value(metric, value) == text


def test_an_effect_is_a_signed_percentage_with_a_true_minus():
    assert format.change(math.log(1.05)) == "+5.0\u00a0%"
    assert format.change(math.log(0.95)) == "\u22125.0\u00a0%"
    assert format.change(None) == "–"


def test_an_interval_needs_both_ends():
    assert format.interval(math.log(0.99), math.log(1.02)) == "\u22121.0\u00a0% to +2.0\u00a0%"
    assert format.interval(None, 0.1) == "–"


def test_sentences_are_set_so_that_numbers_hold_together():
    assert (
        format.typeset("step time -1.3 %, δ = 2 %")
        == "step time \u22121.3\u00a0%, δ\u00a0=\u00a02\u00a0%"
    )


def test_commands_in_a_sentence_keep_their_hyphens():
    assert format.typeset("`pip -e .` said -9") == "`pip -e .` said -9"


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (59.99, "1 min 00 s"),
        (245, "4 min 05 s"),
        (4320, "1 h 12 min"),
        (3 * 86400 + 7200, "3 d 2 h"),
    ],
)
def test_durations(value_s, text):
    assert format.duration(value_s) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=-3), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=5), "5 min ago"),
        (timedelta(hours=47), "47 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=90), "2026-09-01"),
    ],
)
def test_ages(passed, text):
    assert format.age(NOW - passed, NOW) == text


def test_times_are_told_in_utc():
    assert format.moment(NOW) == "2026-11-30 12:00:00 UTC"


@pytest.mark.parametrize(("p", "text"), [(0.5, "0.5"), (0.0123, "0.012"), (1e-9, "< 0.0001")])
def test_probabilities(p, text):
    assert format.probability(p) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("memory_bytes", 128 * 2**30, "128.0 GiB"),
        ("has_nvlink", True, "yes"),
        ("arguments", ["--steps", 4], "--steps 4"),
        ("environment", {"NCCL_ALGO": "Ring"}, "NCCL_ALGO=Ring"),
        ("environment", {}, "–"),
        ("image", None, "–"),
        ("num_cpus", 0, "0"),
    ],
)
def test_facts(name, value, text):
    assert format.fact(name, value) == text


def test_fact_names_are_words():
    assert format.fact_name("gpu_driver") == "GPU driver"
    assert format.fact_name("memory_bytes") == "memory"
    assert format.fact_name("num_gpus") == "num GPUs"


@pytest.mark.parametrize(
    ("sha", "requested", "shown"),
    [
        ("4f2c1aa9d0" * 4, "main", "4f2c1aa9d0"),
        (None, "main", "main"),
        (None, "4f2c1aa9d0" * 4, "4f2c1aa9d0"),
        (None, "4f2c1aa9d0" * 4 + "^1", "4f2c1aa9d0" * 4 + "^1"),
        (None, "deadbeef", "deadbeef"),
    ],
)
def test_a_revision_before_and_after_it_is_known(sha: str | None, requested: str, shown: str):
    assert format.revision(sha, requested) == shown


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("static_flops", 215_200_000_000_000, "215.2 TFLOP"),
        ("static_num_collectives@all_gather", 65.0, "65"),
        ("static_peak_bytes", 0.0, "0 B"),
        ("static_num_graph_breaks", None, "–"),
    ],
)
def test_counts(name: str, value: float | None, text: str):
    assert format.metric_value(name, value) == text


def test_a_count_is_of_one_trial_a_side_and_has_no_interval():
    assert format.replicates("static_flops", 1) == "1 trial a side"
    assert not format.is_confidence_interval("static_flops")
    assert format.interval(None, None) == "–"

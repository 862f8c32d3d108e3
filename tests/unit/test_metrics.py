import pytest

from service.metrics import METRICS, Better, Method, covered_by, find, metric_named, ordered


@pytest.mark.parametrize(
    ("parameter", "shown"),
    [
        ("1048576", "1 MiB"),
        ("1073741824", "1 GiB"),
        ("1536", "1536 B"),
        ("65536", "64 KiB"),
        ("8", "8 B"),
        ("0", "0 B"),
        ("512x512x64", "512x512x64"),
    ],
)
def test_a_member_of_a_family_is_titled_by_its_size(parameter: str, shown: str) -> None:
    name = f"busbw_bytes_per_s@{parameter}"
    member = metric_named(name)
    assert member.title == f"Bus bandwidth, {shown}"
    assert (member.name, member.family) == (name, "busbw_bytes_per_s")
    assert member.better is Better.HIGHER


def test_a_kind_is_told_in_words() -> None:
    member = metric_named("static_num_collectives@reduce_scatter")
    assert member.title == "Collectives, reduce scatter"


def test_counts_belong_to_static_cases_alone() -> None:
    for metric in METRICS.values():
        assert metric.is_static or metric.method is not Method.COUNTED
        assert (metric.min_effect == 0) == metric.is_static
    assert metric_named("static_held_bytes@activations").is_static


@pytest.mark.parametrize(
    "name",
    [
        "speed",
        "",
        "@",
        "@1024",
        "busbw_bytes_per_s@",
        "busbw_bytes_per_s@1 MiB",
        "loss@" + "1" * 41,
    ],
)
def test_what_we_do_not_know(name: str) -> None:
    assert find(name) is None
    with pytest.raises(KeyError):
        metric_named(name)


def test_order_is_the_tables_and_then_by_size() -> None:
    names = ["busbw_bytes_per_s@1048576", "busbw_bytes_per_s@2048", "loss", "step_time_s"]
    assert ordered([*names, "loss"]) == [
        "step_time_s",
        "busbw_bytes_per_s@2048",
        "busbw_bytes_per_s@1048576",
        "loss",
    ]


def test_what_a_metric_covers() -> None:
    assert covered_by("steps_per_s") == {"steps_per_s", "tokens_per_s"}
    assert covered_by("flops_per_s@64") == {"flops_per_s@64", "flops_per_s"}


def test_rules_that_metrics_share_end_somewhere() -> None:
    for metric in METRICS.values():
        if metric.like is not None:
            assert metric_named(metric.like).like != metric.name

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.figures import intervals, trace
from dashboards.figures.downsample import LIMIT, outline
from dashboards.figures.theme import Plot, figure
from service.domain import FailureReason, Role, Verdict
from tests.unit import dashboards_factories as make


def traces(plot):
    """Traces of a plot by name."""
    return {item.name: item for item in plot.figure.data}


class TestOutline:
    def test_few_points_are_all_kept(self):
        assert list(outline([3, 1, 2])) == [0, 1, 2]

    @given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(2, 50))
    def test_it_keeps_extremes_and_order_within_the_limit(self, values, limit):
        shown = outline(values, limit)
        assert len(shown) <= max(limit, 2)
        assert (np.diff(shown) > 0).all()
        kept = np.array(values)[shown]
        assert (kept.min(), kept.max()) == (min(values), max(values))

    def test_a_spike_survives(self):
        values = np.ones(1_000_000)
        values[123_456] = 7
        assert 123_456 in outline(values)


class TestIntervals:
    def plot(self, num_pairs=5, **given):
        found = make.pairs(num_pairs)
        comparison = replace(make.judged(found)[0], **given)
        return intervals.plot(comparison, found)

    def test_pairs_are_points_in_order_in_per_cent(self):
        found = make.pairs(5)
        points = traces(intervals.plot(make.judged(found)[0], found))["pair"]
        assert list(points.x) == [1, 2, 3, 4, 5]
        expected = [100 * math.expm1(pair.effects["step_time_s"]) for pair in found]
        assert list(points.y) == pytest.approx(expected)
        assert points.marker.symbol == "circle-open"

    def test_the_look_that_decided_has_its_own_shape_colour_and_word(self):
        decided = traces(self.plot())["regression, after 3"]
        assert decided.marker.symbol == "diamond"
        assert decided.marker.color == "var(--worse)"

    def test_a_look_shows_its_interval(self):
        looks = [make.look(3, mean=0.05, low=0.02, high=0.08)]
        shown = traces(self.plot(looks=looks))["look"]
        assert shown.y[0] == pytest.approx(100 * math.expm1(0.05))
        assert shown.y[0] + shown.error_y.array[0] == pytest.approx(100 * math.expm1(0.08))
        assert shown.y[0] - shown.error_y.arrayminus[0] == pytest.approx(100 * math.expm1(0.02))

    def test_pairs_after_the_last_look_refine_the_estimate(self):
        assert "all pairs" in traces(self.plot(4))
        assert "all pairs" not in traces(self.plot(5))

    def test_the_band_is_symmetric_in_logs(self):
        band, zero = self.plot().figure.layout.shapes
        assert (band.y0, band.y1) == (pytest.approx(100 * (1 / 1.02 - 1)), pytest.approx(2))
        assert (zero.y0, zero.y1) == (0, 0)

    def test_the_frame_holds_pairs_and_band(self):
        low, high = self.plot().figure.layout.yaxis.range
        assert low < 100 * (1 / 1.02 - 1)
        assert high > 6

    def test_the_axis_says_which_way_is_worse(self):
        found = make.pairs(5)
        titles = {
            item.metric: intervals.plot(item, found).figure.layout.yaxis.title.text
            for item in make.judged(found)
        }
        assert titles == {
            "step_time_s": "change in %, worse →",
            "tokens_per_s": "← worse, change in %",
        }

    def test_a_metric_that_no_pair_measured_has_no_figure(self):
        found = make.pairs(5)
        assert intervals.plot(make.comparison(metric="peak_allocated_bytes"), found) is None

    def test_invalid_pairs_are_counted_not_drawn(self):
        invalid = make.pair(5, {}, invalid_reason=FailureReason.STALLED)
        found = [*make.pairs(5), invalid]
        plot = intervals.plot(make.judged(found)[0], found)
        assert len(traces(plot)["pair"].x) == 5
        assert "1 invalid pair left out." in plot.caption

    @pytest.mark.parametrize("verdict", Verdict)
    def test_every_verdict_can_be_drawn(self, verdict):
        found = make.pairs(3)
        comparison = make.comparison(verdict, looks=[make.look(3, verdict=verdict)], num_pairs=3)
        assert json.loads(intervals.plot(comparison, found).json)["data"]


class TestTrace:
    def test_it_shows_every_step_of_both_sides_in_one_unit(self):
        plot = trace.plot(make.trace())
        found = traces(plot)
        assert len(found["baseline step"].x) == len(found["candidate step"].x) == 220
        assert plot.figure.layout.yaxis.title.text == "step time in ms"
        assert max(found["baseline step"].y) == pytest.approx(9 * 124.3, rel=0.01)

    def test_sides_differ_in_shape_and_dash_not_in_colour_alone(self):
        lines = [item for item in trace.plot(make.trace()).figure.data if item.showlegend is None]
        steps = [item for item in trace.plot(make.trace()).figure.data if item.showlegend is False]
        assert {line.line.dash for line in lines} == {"solid", "dash"}
        assert {item.marker.symbol for item in steps} == {"circle", "diamond"}

    def test_the_warm_up_is_shaded_and_the_median_is_of_the_rest(self):
        steps = {role: [9.0] * 5 + [1.0] * 5 for role in Role}
        plot = trace.plot(make.trace(steps=steps, num_warmup_steps=5))
        [shaded] = plot.figure.layout.shapes
        assert (shaded.x0, shaded.x1) == (-0.5, 4.5)
        [median] = [item for item in plot.figure.data if item.name == "baseline, median 1.000 s"]
        assert (list(median.x), list(median.y)) == ([5, 9], [1, 1])

    def test_a_long_warm_up_step_leaves_the_frame_and_the_caption_says_so(self):
        plot = trace.plot(make.trace())
        assert plot.figure.layout.yaxis.range[1] < 300
        assert "lie above the frame" in plot.caption

    def test_a_spike_after_the_warm_up_stays_in_the_frame(self):
        steps = {role: [1.0] * 50 + [30.0] + [1.0] * 50 for role in Role}
        plot = trace.plot(make.trace(steps=steps))
        assert plot.figure.layout.yaxis.range[1] > 30
        assert "above the frame" not in plot.caption

    def test_a_long_trace_is_thinned_and_says_so(self):
        plot = trace.plot(make.trace(num_steps=20_000))
        assert len(traces(plot)["baseline step"].x) <= LIMIT
        assert "Of 20,000 steps" in plot.caption

    def test_without_warm_up_nothing_is_shaded(self):
        assert not trace.plot(make.trace(num_warmup_steps=0)).figure.layout.shapes

    def test_a_side_without_steady_steps_has_no_figure(self):
        assert trace.plot(make.trace(num_warmup_steps=220)) is None
        assert trace.plot(make.trace(steps={Role.BASELINE: [1.0] * 50})) is None


def test_colours_are_names_from_the_style_sheet():
    found = make.pairs(5)
    plots = [intervals.plot(make.judged(found)[0], found), trace.plot(make.trace())]
    for plot in plots:
        assert "#" not in plot.json
        assert "var(--" in plot.json


def test_a_figure_cannot_close_the_element_it_stands_in():
    plot = Plot(
        title="", caption="", description="", figure=figure([], x="</script><!--", y="&amp;")
    )
    assert not set("<>&") & set(plot.json)
    assert json.loads(plot.json)["layout"]["xaxis"]["title"]["text"] == "</script><!--"

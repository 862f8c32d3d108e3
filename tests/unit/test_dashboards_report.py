import re

from dashboards.report import Context, to_html
from dashboards.sections import run_section
from service.domain import FailureReason
from tests.unit import dashboards_factories as make


def report(*runs, title="Report", logs=None):
    sections = [run_section(run, [make.trace()], now=make.NOW) for run in runs]
    return to_html(Context(title=title, now=make.NOW, sections=sections, logs=logs or {}))


def without_libraries(html):
    """The document without the styles and scripts it carries along."""
    return re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL)


def test_it_needs_no_other_file():
    html = without_libraries(report(make.measured_run()))
    assert "<link" not in html
    assert " src=" not in html
    assert "/ui" not in html


def test_plotly_and_styles_lie_in_it_once():
    html = report(make.measured_run(), make.run(id=make.ident(8)))
    assert html.count("* plotly.js v") == 1
    assert html.count("<style>") == 1
    assert html.count("</script>") == html.count("<script")


def test_it_lists_its_runs_and_tells_them_apart():
    html = without_libraries(report(make.measured_run(), make.run(id=make.ident(8))))
    assert html.count('<a href="#run-0000000') == 2
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_single_run_needs_no_list():
    assert '<ol class="contents">' not in report(make.measured_run())


def test_the_log_of_a_failed_trial_comes_along():
    run = make.run(trials=[make.failed_trial(FailureReason.CRASHED)])
    html = without_libraries(report(run, logs={make.ident(3001): "boom <b>"}))
    assert "boom &lt;b&gt;" in html


def test_a_hostile_title_is_text():
    html = without_libraries(report(make.measured_run(), title="</title><script>x</script>"))
    assert "<script>x" not in html

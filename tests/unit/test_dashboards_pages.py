from dataclasses import replace
from html.parser import HTMLParser

import pytest

from dashboards.pages import artifact, run, runs
from dashboards.sections import run_section
from dashboards.templating import render
from dashboards.words import FAILURES, STATUSES, VERDICTS
from service.api.lists import RunQuery
from service.domain import FailureReason, Role, Status, Verdict
from tests.unit import dashboards_factories as make

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


class Checker(HTMLParser):
    """Collects what a strict page must not have, and whether its elements are closed."""

    VOID = ("meta", "link", "img", "br", "input")

    def __init__(self, html):
        super().__init__()
        self.scripts, self.handlers, self.foreign, self.open, self.ids = [], [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "script" and "src" not in given:
            self.scripts.append(given.get("type"))
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        links = (given.get("src"), given.get("href"))
        self.foreign += [link for link in links if link and "//" in link]
        self.ids += [given["id"]] if "id" in given else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def run_page(detail, traces=(), **given):
    section = run_section(detail, traces, now=make.NOW, **given)
    return strict(render(run.TEMPLATE, vars(run.Context(section=section))))


def runs_page(*found, **given):
    values = {
        "projects": ["tinylm"],
        "clusters": ["local"],
        "query": RunQuery(),
        "is_filtered": False,
        "this": "",
        "older": None,
        "newer": None,
    }
    context = runs.Context(runs=found, now=make.NOW, **values | given)
    return strict(render(runs.TEMPLATE, vars(context)))


def strict(html):
    """The page, once it was found to hold no script or handler of its own."""
    checker = Checker(html)
    assert set(checker.scripts) <= {"application/json"}
    assert not checker.handlers
    assert not checker.foreign
    assert not checker.open
    assert len(checker.ids) == len(set(checker.ids))
    return html


class TestRuns:
    def test_a_row_answers_what_how_and_at_what_price(self):
        html = runs_page(make.summary(comparisons=[make.comparison()]))
        for text in (
            "▲", "regression", "tinylm", "4f2c1aa9", "9b01de37", "Cache the rotary embedding",
            "local", "40 min ago", "12 min 34 s", "Regression: train-2: step time +5.1\u00a0%",
        ):  # fmt: skip
            assert text in html

    def test_the_form_shows_what_the_address_asks_for(self):
        query = RunQuery(
            project="a b",
            status=["failed"],
            verdict=["broken", "missing"],
            revision="4f2c",
            since="2026-05-04T12:00Z",
        )
        html = runs_page(make.summary(), projects=["a b", "tinylm"], query=query, is_filtered=True)
        assert "<option selected>a b</option>" in html
        assert "<option >tinylm</option>" in html
        assert html.count("checked") == 3
        assert 'name="verdict" value="broken" checked' in html
        assert 'name="revision" value="4f2c"' in html
        assert 'name="since" value="2026-05-04T12:00:00+00:00"' in html
        assert "<h1>Runs of a b</h1>" in html
        assert '<a href="/ui">all runs</a>' in html

    def test_pages_lead_on_and_back_and_to_the_json(self):
        html = runs_page(
            make.summary(), this="?project=a+b", older="?a=1&cursor=x", newer="?cursor=y"
        )
        assert '<a rel="next" href="/ui?a=1&amp;cursor=x">Older</a>' in html
        assert '<a rel="prev" href="/ui?cursor=y">Newer</a>' in html
        assert 'href="/runs?project=a+b"' in html
        assert 'aria-label="Pages"' not in runs_page(make.summary())

    def test_a_service_without_runs_tells_the_two_next_commands(self):
        text = runs_page(projects=[]).replace("<span>", "").replace("</span>", "")
        assert "paceline project add PATH" in text
        assert "paceline compare BASE..CANDIDATE" in text
        assert "<form" not in text

    @pytest.mark.parametrize(
        ("query", "words"),
        [(RunQuery(cursor="x"), "The list ends here."), (RunQuery(intent="gate"), "No run match")],
    )
    def test_an_empty_page_is_not_an_empty_service(self, query, words):
        html = runs_page(query=query, is_filtered=query.cursor is None)
        assert words in html
        assert "project add" not in html

    @pytest.mark.parametrize("status", Status)
    def test_every_status_has_its_mark(self, status):
        html = runs_page(make.summary(status))
        expected = VERDICTS[Verdict.REGRESSION] if status is Status.FINISHED else STATUSES[status]
        assert f'class="mark {expected.style}"' in html

    def test_a_side_that_is_not_planned_yet_is_shown_as_asked_for(self):
        html = runs_page(make.summary(Status.QUEUED, candidate=make.side(sha=None, subject=None)))
        assert "faster-rope" in html

    def test_a_subject_of_the_other_direction_stays_in_its_place(self):
        html = runs_page(make.summary(candidate=make.side(subject="\u202egnissim")))
        assert "<bdi>\u202egnissim</bdi>" in html

    def test_a_subject_without_end_is_shortened_but_not_lost(self):
        html = runs_page(make.summary(candidate=make.side(subject="x" * 5000)))
        assert f'<bdi title="{"x" * 5000}">{"x" * 119}…</bdi>' in html

    def test_a_hostile_subject_is_text(self):
        html = runs_page(make.summary(candidate=make.side(subject=HOSTILE, requested=HOSTILE)))
        assert "&lt;script&gt;alert(1)" in html


class TestRun:
    @pytest.mark.parametrize("verdict", Verdict)
    def test_every_verdict_has_mark_word_and_advice(self, verdict):
        html = run_page(make.run(verdict=verdict, comparisons=[make.comparison(verdict)]))
        expected = VERDICTS[verdict]
        assert f'<header class="verdict {expected.style}">' in html
        assert expected.symbol in html
        assert expected.word in html
        assert expected.advice in html

    @pytest.mark.parametrize("verdict", [item for item in Verdict if item is not Verdict.NO_CHANGE])
    def test_only_no_change_looks_like_no_change(self, verdict):
        html = run_page(make.run(verdict=verdict, comparisons=[make.comparison(verdict)]))
        assert 'class="mark same"' not in html

    @pytest.mark.parametrize("status", [s for s in Status if s is not Status.FINISHED])
    def test_every_status_says_what_happens_next(self, status):
        html = run_page(make.run(status))
        assert f'<header class="verdict {STATUSES[status].style}">' in html
        assert STATUSES[status].advice in html

    @pytest.mark.parametrize("status", Status)
    def test_only_a_run_that_goes_on_offers_to_reload(self, status):
        html = run_page(make.run(status, pairs=make.pairs(2)))
        assert ("Reload" in html) is not status.is_final
        assert ('data-seen="finished-5-10-1"' in html) is not status.is_final

    @pytest.mark.parametrize("reason", FailureReason)
    def test_every_failure_is_told_in_words(self, reason):
        html = run_page(
            make.run(Status.FAILED, failure_reason=reason, trials=[make.failed_trial(reason)])
        )
        assert FAILURES[reason].words in html
        assert FAILURES[reason].remedy.replace("'", "&#39;") in html
        assert f">{reason}<" not in html

    def test_subject_and_author_stay_in_their_places(self):
        html = run_page(make.run(candidate=make.side(subject="\u202eb", author="\u202ea")))
        assert html.count("<bdi>\u202eb</bdi>") == 2
        assert "<td><bdi>\u202ea</bdi></td>" in html

    def test_a_comparison_has_its_figures_reasons_and_looks(self):
        html = run_page(make.measured_run())
        for text in (
            "124.3 ms", "130.7 ms", "80,000 tokens/s", "+5.2\u00a0%", "+3.6\u00a0% to +6.9\u00a0%",
            "SD of a pair 0.45\u00a0%.", "p regression", "decided after 3", "paired-sequential",
        ):  # fmt: skip
            assert text in html

    def test_a_metric_that_does_not_gate_says_so(self):
        html = run_page(make.run(comparisons=[make.comparison(is_gating=False)]))
        assert "does not gate" in html

    def test_the_span_of_trials_is_not_sold_as_a_confidence_interval(self):
        memory = {"metric": "peak_allocated_bytes", "baseline_value": 3e9, "candidate_value": 4e9}
        html = run_page(make.run(comparisons=[make.comparison(num_pairs=3, **memory)]))
        assert "span of the trials" in html
        assert "3 trials a side" in html
        assert "span of the trials" not in run_page(make.measured_run())

    @pytest.mark.parametrize(("decided_at", "word"), [(None, "more pairs"), (3, "stands")])
    def test_a_look_after_the_decision_does_not_ask_for_more(self, decided_at, word):
        comparison = make.comparison(looks=[make.look(5)], decided_at=decided_at)
        html = run_page(make.run(comparisons=[comparison]))
        assert f"<td>{word}</td>" in html

    def test_what_was_not_measured_is_no_zero(self):
        missing = make.unmeasured(Verdict.MISSING, "The baseline has no such case.")
        html = run_page(make.run(verdict=Verdict.MISSING, comparisons=[missing]))
        assert "The baseline has no such case." in html
        assert '<td class="number " data-label="change">–</td>' in html

    def test_each_gating_metric_and_the_shown_pair_are_drawn(self):
        html = run_page(make.measured_run(), [make.trace(pair=1)])
        assert html.count('<script type="application/json">') == 3
        assert "Step times of pair 2" in html
        assert 'href="?pair=1#run-00000007-case-1-trace"' in html
        assert "plotly.min.js" in html

    def test_a_page_without_figures_does_not_load_plotly(self):
        assert "plotly.min.js" not in run_page(make.run(Status.QUEUED))

    def test_an_invalid_pair_cannot_be_chosen(self):
        voided = make.pair(1, {}, invalid_reason=FailureReason.STALLED)
        html = run_page(make.run(pairs=[make.pair(0), voided]), [make.trace()])
        assert '<s title="invalid: stalled">2</s>' in html
        assert "?pair=2" not in html

    def test_a_trial_has_state_exit_code_log_and_command(self):
        html = run_page(make.run(trials=[make.failed_trial(FailureReason.CRASHED, pair=None)]))
        for text in (
            "solo", "crashed", "Rank 1 exited with 1.", f"/ui/artifacts/{make.ident(3001)}",
            "<span>torchrun</span> <span>--nproc-per-node=2</span>",
            '<details class="trials" open>',
        ):  # fmt: skip
            assert text in html

    def test_trials_that_all_succeeded_are_folded_away(self):
        assert '<details class="trials" >' in run_page(make.measured_run())

    def test_differences_between_the_sides_are_marked(self):
        old = make.trial(Role.BASELINE, software={"torch": "2.12.1"})
        html = run_page(make.run(trials=[old, make.trial(software={"torch": "2.13.0"})]))
        row = html.split('<th scope="row">torch</th>')[1].split("</tr>")[0]
        assert "<td>2.12.1</td><td>2.13.0</td>" in row
        assert "differs" in row

    def test_it_names_its_json(self):
        found = f'<link rel="alternate" type="application/json" href="/runs/{make.ident(7)}">'
        assert found in run_page(make.run())

    def test_the_setup_log_of_a_failed_run_is_linked(self):
        html = run_page(make.run(Status.FAILED, artifacts=[make.artifact(5, name="setup.log")]))
        assert f'<a href="/ui/artifacts/{make.ident(3005)}">setup.log</a>' in html

    def test_nothing_a_project_says_becomes_markup(self):
        side = make.side(
            subject=HOSTILE, requested=HOSTILE, author=HOSTILE, environment={"X": HOSTILE}
        )
        trial = make.failed_trial(
            FailureReason.CRASHED, failure_detail=HOSTILE, command=HOSTILE, software={"x": HOSTILE}
        )
        environment = make.environment(soft={HOSTILE: HOSTILE})
        comparison = make.comparison(case="train-2", reasons=[HOSTILE, HOSTILE])
        html = run_page(
            replace(
                make.measured_run(trials=[trial], environments=[environment], candidate=side),
                comparisons=[comparison],
                headline=HOSTILE,
                artifacts=[make.artifact(9, name=HOSTILE)],
                project=HOSTILE,
                cluster=HOSTILE,
            )
        )
        assert "<script>alert" not in html
        assert "<img src=x" not in html


class TestArtifact:
    def page(self, content, limit=True):
        text = artifact.readable(content)
        context = artifact.Context(
            artifact_id=make.ident(1), run_id=make.ident(7), name="log.txt",
            num_bytes=len(content), text=text, is_whole=limit,
        )  # fmt: skip
        return strict(render(artifact.TEMPLATE, vars(context)))

    def test_a_log_is_text(self):
        html = self.page(HOSTILE.encode())
        assert "&lt;script&gt;alert(1)" in html
        assert 'href="?raw=1"' in html

    def test_an_empty_log_says_so(self):
        assert "printed nothing" in self.page(b"\n")

    def test_a_shortened_log_says_so(self):
        assert "only the last part" in self.page(b"x", limit=False)

    def test_colours_are_dropped_and_progress_bars_keep_their_last_state(self):
        content = b"\x1b[31mred\x1b[0m\r\n 10%\r 50%\r100%\nend\x00\n"
        assert artifact.readable(content) == "red\n100%\nend\n"

    def test_bytes_that_are_no_text_do_no_harm(self):
        assert artifact.readable(b"a\xff\tb") == "a\ufffd\tb"

    def test_raw_is_saved_not_shown(self):
        response = artifact.download('x".html\r\n', b"<b>")
        assert response.body == b"<b>"
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.headers["content-disposition"] == (
            "attachment; filename*=UTF-8''x%22.html%0D%0A"
        )
        assert response.headers["x-content-type-options"] == "nosniff"

"""Every command against a service that is played: what it asks, prints, and exits with."""

import io
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from fastapi.encoders import jsonable_encoder
from fastapi.sse import format_sse_event
from rich.console import Console

from service import cli
from service.cli.client import Client
from service.cli.follow import follow
from service.config import Settings
from service.db.views import RunDetail
from service.domain import Status, Verdict
from service.errors import ServiceUnreachable
from tests.unit import dashboards_factories as make

RUN = make.ident(7)
Paceline = Callable[..., int]


class Service:
    """Plays the service: an answer per request, of which the last stays; keeps what it heard."""

    def __init__(self) -> None:
        self.answers: dict[str, list[httpx.Response | Exception]] = {}
        self.requests: list[httpx.Request] = []

    def says(self, what: str, *answers: Any) -> None:
        """Answers of `GET /path`, in turn: a status of a problem, a response, an error or JSON."""
        self.answers[what] = [_response(answer) for answer in answers]

    def streams(self, *answers: Any) -> None:
        """How following goes, in turn: a run, after which the stream ends, or what `says` takes."""
        runs = [answer for answer in answers if isinstance(answer, RunDetail)]
        self.says(f"GET /runs/{RUN}/events", *map(_stream, answers))
        self.says(f"GET /runs/{RUN}", runs[-1])

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answers = self.answers[f"{request.method} {request.url.path}"]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def body(self) -> Any:
        """JSON of the last request that had any."""
        return json.loads([r for r in self.requests if r.content][-1].content)


def _response(answer: Any) -> httpx.Response | Exception:
    if isinstance(answer, httpx.Response | Exception):
        return answer
    if isinstance(answer, int):
        problem = {"status": answer, "detail": f"No, {answer}."}
        return httpx.Response(
            answer, json=problem, headers={"content-type": "application/problem+json"}
        )
    return httpx.Response(200, json=jsonable_encoder(answer))


def _stream(answer: Any) -> Any:
    """A stream of one event, where the answer is a run."""
    if not isinstance(answer, RunDetail):
        return answer
    event = format_sse_event(
        data_str=json.dumps(jsonable_encoder(answer)), event="progress", id=f"{answer.status}-1"
    )
    return httpx.Response(200, content=event, headers={"content-type": "text/event-stream"})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    played = Service()
    transport = httpx.MockTransport(played)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=transport))
    played.says(
        "GET /projects",
        {"items": [{"name": "tinylm", "source": str(Path.cwd())}], "next_cursor": None},
    )
    played.says("POST /runs", make.run(Status.QUEUED, id=RUN))
    return played


@pytest.fixture
def paceline(monkeypatch: pytest.MonkeyPatch) -> Paceline:
    """Runs the command line; its exit code."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["paceline", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        code = exit_.value.code
        assert isinstance(code, int)
        return code

    return run


class TestUsage:
    @pytest.mark.parametrize("revisions", ["main", "main..", "..main", "main...other"])
    def test_revisions_that_are_no_pair(self, paceline, capsys, revisions):
        assert paceline("compare", revisions) == 2
        assert "BASE..CANDIDATE" in capsys.readouterr().err

    def test_an_unknown_command(self, paceline):
        assert paceline("frobnicate") == 2

    @pytest.mark.parametrize("max_pairs", ["2", "21"])
    def test_pairs_outside_the_looks(self, paceline, max_pairs):
        assert paceline("compare", "a..b", "--max-pairs", max_pairs) == 2

    @pytest.mark.parametrize("port", ["0", "70000", "abc"])
    def test_a_port_that_is_none(self, paceline, port):
        assert paceline("up", "--port", port) == 2

    def test_every_wrong_setting_is_a_sentence(self, paceline, monkeypatch, capsys):
        monkeypatch.setenv("PACELINE_PORT", "abc")
        monkeypatch.setenv("PACELINE_LEASE_S", "inf")
        assert paceline("runs") == 2
        port, lease = capsys.readouterr().err.splitlines()
        assert port.startswith("paceline: PACELINE_PORT: Input should be a valid integer")
        assert lease == "paceline: PACELINE_LEASE_S: It must be at most 604800 seconds, a week."

    def test_a_secret_in_a_wrong_setting_is_not_repeated(self, paceline, monkeypatch, capsys):
        monkeypatch.setenv("PACELINE_DATABASE_URL", "mysql://ada:hunter2@host/name")
        assert paceline("db", "upgrade") == 2
        error = capsys.readouterr().err
        assert "PACELINE_DATABASE_URL" in error
        assert "hunter2" not in error


class TestRuns:
    def test_a_row_a_run(self, paceline, service, capsys):
        undecided = make.summary(verdict=Verdict.NO_CHANGE, headline="No change.")
        queued = make.summary(Status.QUEUED, candidate=make.side(sha=None))
        service.says("GET /runs", {"items": [undecided, queued]})
        assert paceline("runs", "--project", "tinylm", "--limit", "2") == 0
        lines = capsys.readouterr().out
        assert "4f2c1aa900..9b01de3700" in lines
        assert "= no change" in lines
        assert "4f2c1aa900..faster-rope" in lines
        assert "… queued" in lines
        assert dict(service.requests[-1].url.params) == {"limit": "2", "project": "tinylm"}

    def test_json_is_the_answer_and_nothing_else(self, paceline, service, capsys):
        page = {"items": [make.summary(headline="\x1b[31m[/data] δ")]}
        service.says("GET /runs", page)
        assert paceline("runs", "--json") == 0
        assert json.loads(capsys.readouterr().out) == jsonable_encoder(page)

    @pytest.mark.parametrize("text", ["[/data/train.bin] missing", "[rank1] died", "[red]x"])
    def test_brackets_of_a_failure_are_text(self, paceline, service, capsys, text):
        service.says("GET /runs", {"items": [make.summary(Status.FAILED, headline=text)]})
        assert paceline("runs") == 0
        assert text in " ".join(capsys.readouterr().out.split())

    def test_a_failure_cannot_steer_the_terminal(self, paceline, service, capsys):
        hostile = "a\x1b[2J\x1b]0;title\x07b\u202ec\x9b31m"
        service.says("GET /runs", {"items": [make.summary(Status.FAILED, headline=hostile)]})
        assert paceline("runs") == 0
        assert not set("\x1b\x07\u202e\x9b") & set(capsys.readouterr().out)

    def test_a_terminal_without_the_letters_gets_others(self, paceline, service, monkeypatch):
        out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
        monkeypatch.setattr(sys, "stdout", out)
        service.says("GET /runs", {"items": [make.summary(headline="δ = 2 %")]})
        assert paceline("runs") == 0
        out.flush()
        assert b"? = 2 %" in out.buffer.getvalue()  # type: ignore[attr-defined]


class TestSchedule:
    NIGHTLY: ClassVar = {
        "project": "tinylm", "name": "nightly", "cron": "0 2 * * *",
        "next_at": "2026-12-01T02:00:00Z", "left_out_at": None,
        "request": {"candidate": {"revision": "main"}, "baseline": None, "intent": "gate"},
    }  # fmt: skip

    def test_what_is_set(self, paceline, service, capsys):
        service.says("PUT /projects/tinylm/schedules/nightly", self.NIGHTLY)
        asked = ["--cron", "0 2 * * *", "--candidate", "main", "--suite", "all"]
        assert paceline("schedule", "set", "nightly", *asked) == 0
        assert service.body() == {
            "cron": "0 2 * * *", "candidate": "main", "cluster": "local", "suite": "all",
        }  # fmt: skip
        assert "tinylm/nightly asks for a run next at 2026-12-01 02:00" in capsys.readouterr().out

    def test_a_row_a_schedule(self, paceline, service, capsys):
        named = {**self.NIGHTLY["request"], "baseline": {"revision": "[v1]\x1b[2J"}}
        rows = [self.NIGHTLY, {**self.NIGHTLY, "name": "drift", "request": named}]
        service.says("GET /schedules", {"items": rows, "next_cursor": None})
        assert paceline("schedule", "list") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].split() == [
            *("tinylm", "nightly", "0", "2", "*", "*", "*"),
            *("2026-12-01", "02:00", "main", "last", "verdict"),
        ]
        assert lines[2].split()[-1] == "[v1]"

    def test_one_is_taken_away_by_its_name_alone(self, paceline, service, capsys):
        service.says("DELETE /projects/x/schedules/../nightly", self.NIGHTLY)
        assert paceline("schedule", "delete", "../nightly", "--project", "x") == 0
        assert service.requests[-1].url.raw_path == b"/projects/x/schedules/..%2Fnightly"
        assert "no more runs" in capsys.readouterr().out


class TestCompare:
    def test_what_is_asked_for(self, paceline, service, capsys):
        options = ["--suite", "nightly", "--case", "a", "--case", "b", "--max-pairs", "5"]
        assert paceline("compare", "main..faster", *options, "--cluster", "h200") == 0
        assert service.body() == {
            "project": "tinylm", "baseline": "main", "candidate": "faster", "cluster": "h200",
            "suite": "nightly", "cases": ["a", "b"], "max_pairs": 5,
        }  # fmt: skip
        captured = capsys.readouterr()
        assert f"/ui/runs/{RUN}" in captured.err
        assert captured.out == ""

    def test_a_revision_against_itself_is_asked_for_by_its_intent(self, paceline, service):
        assert paceline("compare", "main..main", "--intent", "calibrate") == 0
        assert service.body()["intent"] == "calibrate"

    @pytest.mark.parametrize(
        ("verdict", "code"),
        [(Verdict.REGRESSION, 1), (Verdict.INCONCLUSIVE, 3), (Verdict.INCOMPARABLE, 6),
         (Verdict.NO_CHANGE, 0)],
    )  # fmt: skip
    def test_watching_ends_with_the_verdict(self, paceline, service, capsys, verdict, code):
        run = make.run(verdict=verdict, comparisons=[make.comparison(verdict)])
        service.streams(run)
        assert paceline("compare", "main..faster", "--watch") == code
        out = " ".join(capsys.readouterr().out.split())
        assert "train-2 Step time 5 +5.1 % +4.4 % to +5.9 %" in out
        assert run.headline in out

    def test_a_run_that_failed(self, paceline, service, capsys):
        service.streams(make.run(Status.FAILED, failure_detail="[red]pip\x1b[2J"))
        assert paceline("compare", "main..faster", "--watch") == 5
        assert capsys.readouterr().out.endswith("no verdict: [red]pip\n")

    @pytest.mark.parametrize("watch", [[], ["--watch"]])
    def test_json_is_the_run_and_nothing_else(self, paceline, service, capsys, watch):
        finished = make.measured_run()
        service.streams(finished)
        paceline("compare", "main..faster", "--json", *watch)
        printed = json.loads(capsys.readouterr().out)
        assert printed["status"] == ("finished" if watch else "queued")

    def test_a_folder_of_no_project(self, paceline, service, capsys):
        service.says(
            "GET /projects",
            {"items": [{"name": "other", "source": "/elsewhere"}], "next_cursor": None},
        )
        assert paceline("compare", "a..b") == 2
        assert "paceline project add ." in capsys.readouterr().err

    def test_a_folder_below_a_source_that_is_a_link(self, paceline, service, tmp_path, monkeypatch):
        inner = tmp_path / "real" / "inner"
        inner.mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "real")
        service.says(
            "GET /projects",
            {"items": [{"name": "linked", "source": str(tmp_path / "link")}], "next_cursor": None},
        )
        monkeypatch.chdir(inner)
        assert paceline("compare", "a..b") == 0
        assert service.body()["project"] == "linked"


class TestStatic:
    def test_only_static_cases_are_asked_for(self, paceline, service):
        assert paceline("static", "main..faster", "--suite", "nightly", "--project", "p") == 0
        assert service.body() == {
            "project": "p", "baseline": "main", "candidate": "faster", "cluster": "local",
            "suite": "nightly", "kind": "static",
        }  # fmt: skip

    def test_revisions_that_are_no_pair(self, paceline, capsys):
        assert paceline("static", "main") == 2
        assert paceline("static") == 2
        assert "BASE..CANDIDATE" in capsys.readouterr().err

    def test_the_table_and_the_operators_that_explain_it(self, paceline, service, capsys):
        count = {"case": "8b", "num_pairs": 1, "low": None, "high": None}
        calls = {"operators": [["aten.mm", 87, 88], ["\x1b[2Jaten.add", 4, 0]]}
        run = make.run(
            verdict=Verdict.REGRESSION,
            comparisons=[
                make.comparison(metric="static_num_collectives@all_gather", effect=0.0153,
                                parameters=calls, **count),
                make.comparison(metric="static_num_graph_breaks", effect=None, baseline_value=0,
                                candidate_value=3, parameters=calls, **count),
                make.unmeasured(Verdict.MISSING, "It went away.", metric="static_flops", case="8b"),
            ],
        )  # fmt: skip
        service.streams(run)
        assert paceline("static", "main..faster", "--watch") == 1
        out = " ".join(capsys.readouterr().out.split())
        assert "8b Collectives, all gather 1 trial +1.5 % ▲ regression" in out
        assert "8b Graph breaks 1 trial 0 -> 3 ▲ regression" in out
        assert "8b: aten.mm: 87 -> 88, aten.add: 4 -> 0" in out
        assert out.endswith(run.headline)


class TestFollow:
    """A run goes on while the service restarts."""

    def test_an_event_without_data_is_none(self, service):
        headers = {"content-type": "text/event-stream"}
        empty = httpx.Response(200, content="retry: 2000\nid: 1\n\n", headers=headers)
        service.streams(empty, make.run())
        run, _told = self.follow([])
        assert run["status"] == "finished"

    def follow(self, waits: list[float]) -> tuple[Any, str]:
        console = Console(file=io.StringIO())
        run = follow(Client(Settings()), str(RUN), console, sleep=waits.append)
        return run, console.file.getvalue()  # type: ignore[attr-defined]

    def test_outages_are_told_and_outlived(self, service):
        away = [httpx.ReadTimeout("slow"), httpx.ConnectError("refused"), 503,
                httpx.Response(502, html="<h1>Bad gateway</h1>")]  # fmt: skip
        running = make.run(Status.RUNNING, comparisons=[make.comparison(Verdict.INCONCLUSIVE)])
        service.streams(running, *away, make.run())
        waits: list[float] = []
        run, told = self.follow(waits)
        assert run["status"] == "finished"
        assert waits == [1.0, 1, 2, 4, 8]
        assert told.count("Asking again in") == len(away)
        asked = [r.headers.get("Last-Event-ID") for r in service.requests[:-1]]
        assert asked == [None] + ["running-1"] * 5, "it goes on after what was seen"

    def test_patience_ends(self, service):
        service.says(f"GET /runs/{RUN}/events", httpx.ConnectError("refused"))
        waits: list[float] = []
        with pytest.raises(ServiceUnreachable):
            self.follow(waits)
        assert 120 < sum(waits) < 600

    def test_a_refusal_is_final(self, service, paceline):
        service.says(f"GET /runs/{RUN}/events", 404)
        assert paceline("compare", "a..b", "--watch") == 2
        assert len([r for r in service.requests if r.url.path == f"/runs/{RUN}/events"]) == 1

    def test_what_is_no_stream_is_not_paceline(self, service):
        service.says(f"GET /runs/{RUN}/events", httpx.Response(200, html="<h1>Hello</h1>"))
        with pytest.raises(ServiceUnreachable, match="is not Paceline"):
            self.follow([])


class TestProject:
    def test_a_folder_is_added_by_its_absolute_path(
        self, paceline, service, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.chdir(tmp_path)
        service.says("POST /projects", {"name": tmp_path.name, "source": str(tmp_path)})
        assert paceline("project", "add", ".") == 0
        assert service.body() == {"name": tmp_path.name, "source": str(tmp_path)}
        assert capsys.readouterr().out == f"{tmp_path.name} is tracked: {tmp_path}\n"

    @pytest.mark.parametrize("source", ["/" + "a" * 400, "~nobody-of-that-name/x", "https://h/x"])
    def test_what_is_no_folder_is_left_to_the_service(self, paceline, service, source, capsys):
        service.says("POST /projects", 422)
        assert paceline("project", "add", source, "--name", "x") == 2
        assert service.body()["source"] == source
        assert "No, 422." in capsys.readouterr().err

    def test_they_are_listed(self, paceline, service, capsys):
        service.says(
            "GET /projects", {"items": [{"name": "a", "source": "/a\x1b[2J"}], "next_cursor": None}
        )
        assert paceline("project", "list") == 0
        assert capsys.readouterr().out == "a\t/a\n"


class TestFailures:
    def test_a_service_that_is_not_there(self, paceline, service, capsys):
        service.says("GET /runs", httpx.ConnectError("refused"))
        assert paceline("runs") == 5
        assert "paceline up" in capsys.readouterr().err

    @pytest.mark.parametrize(("status", "code"), [(401, 4), (403, 4), (404, 2), (500, 5), (503, 5)])
    def test_a_problem(self, paceline, service, capsys, status, code):
        service.says("GET /runs", status)
        assert paceline("runs") == code
        assert capsys.readouterr().err == f"paceline: No, {status}.\n"

    def test_a_refusal_is_told_once_and_names_its_fields(self, paceline, service, capsys):
        def refuse(detail: str) -> None:
            error = {"pointer": "/cron", "detail": "It is no line."}
            content = json.dumps({"status": 422, "detail": detail, "errors": [error]})
            headers = {"content-type": "application/problem+json"}
            service.says("GET /runs", httpx.Response(422, content=content, headers=headers))
            assert paceline("runs") == 2

        refuse("It is no line.")
        assert capsys.readouterr().err == "paceline: It is no line.\n"
        refuse("Not valid at /cron.")
        assert capsys.readouterr().err == "paceline: Not valid at /cron. /cron: It is no line.\n"

    @pytest.mark.parametrize(
        "answer",
        [
            httpx.Response(200, html="<h1>It works!</h1>"),
            httpx.Response(404, json={"detail": "Not Found"}),
            httpx.Response(302, headers={"location": "/login"}),
        ],
    )
    def test_another_server(self, paceline, service, capsys, answer):
        service.says("GET /runs", answer)
        assert paceline("runs") == 5
        assert "is not Paceline" in capsys.readouterr().err

    def test_an_answer_of_another_shape_is_a_sentence(self, paceline, service, capsys):
        service.says("GET /runs", ["what?"])
        assert paceline("runs") == 5
        error = capsys.readouterr().err
        assert error.startswith("paceline: The command failed. (TypeError: ")
        assert "paceline --debug" in error
        assert "Traceback" not in error

    def test_the_traceback_is_shown_on_demand(self, paceline, service, capsys, caplog):
        caplog.set_level("INFO", logger="service.cli")  # put back after the test
        service.says("GET /runs", ["what?"])
        assert paceline("--debug", "runs") == 5
        error = capsys.readouterr().err
        assert error.startswith("Traceback")
        assert "paceline: The command failed." in error

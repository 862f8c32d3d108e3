"""The log as it leaves the process: its formats, the ids it carries, and what it never shows."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import sqlalchemy as sa

from runners.app import make_app
from runners.artifacts import RunArtifacts
from runners.bench import Bench, PreparedSide
from runners.launchers import local
from runners.pair import measure_solo
from runners.plan import plan_run
from runners.spec import Limits
from runners.tasks import register
from runners.worker import Worker
from service import logs
from service.artifacts import ArtifactStore
from service.config import Settings
from service.db.session import Message, Sessions, make_engine, transaction
from service.domain import FailureReason, Role
from service.logs import bound
from service.usecases.runs import EXECUTE_TASK, PLAN_TASK
from tests import factories
from tests.conftest import on_sqlite

Logged = Callable[[], str]
SECRET = "hunter2-correct-horse"
logger = logging.getLogger("service.tests")


@pytest.fixture
def configure(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Logged]]:
    """Configures logging for one test; gives what reads the log since the last look."""
    root = logging.getLogger()
    changed = [root, *(logging.getLogger(name) for name in ("service", "runners", "dashboards"))]
    levels = [log.level for log in changed]

    def configure(**values: Any) -> Logged:
        logs.configure(Settings(**values))
        return lambda: capsys.readouterr().err

    yield configure
    for handler in root.handlers[:]:
        if isinstance(handler.formatter, logs.TextLines | logs.JsonLines):
            root.removeHandler(handler)
    for log, level in zip(changed, levels, strict=True):
        log.setLevel(level)


def entries(text: str) -> list[dict[str, str]]:
    """The lines of a log in JSON."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_of_text_ends_with_the_ids(configure: Callable[..., Logged]):
    logged = configure()
    with bound(run_id="r", job_id="j"):
        logger.info("measured %d pairs", 3)
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(rf"{time} INFO measured 3 pairs run_id=r job_id=j\n", logged())


def test_a_traceback_in_text_follows_the_ids(configure: Callable[..., Logged]):
    logged = configure()
    with bound(run_id="r"):
        try:
            raise ValueError("three\nlines")
        except ValueError:
            logger.exception("it failed")
    first, second, *_ = logged().splitlines()
    assert first.endswith("ERROR it failed run_id=r")
    assert second.startswith("Traceback")


def test_a_line_of_json_has_all_fields(configure: Callable[..., Logged]):
    logged = configure(log_format="json")
    ids = {"run_id": "r", "job_id": "j", "trial_id": "t", "worker": "w"}
    token = logs.request_id.set("q")
    with bound(**ids):
        try:
            raise ValueError("three\nlines")
        except ValueError:
            logger.exception("δ of %s\nfailed", "x")
    logs.request_id.reset(token)
    (entry,) = entries(logged())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("time"))
    assert entry.pop("exception").endswith("ValueError: three\nlines")
    assert entry == {
        "level": "ERROR",
        "logger": "service.tests",
        "message": "δ of x\nfailed",
        "request_id": "q",
        **ids,
    }


def test_ids_hold_inside_only_even_after_an_error(configure: Callable[..., Logged]):
    logged = configure(log_format="json")

    def work() -> None:
        with bound(run_id="outer", worker="w"):
            with bound(run_id="inner"):
                logger.info("1")
            logger.info("2")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    logger.info("3")
    found = [(entry.get("run_id"), entry.get("worker")) for entry in entries(logged())]
    assert found == [("inner", "w"), ("outer", "w"), (None, None)]


def test_threads_have_ids_of_their_own(configure: Callable[..., Logged]):
    logged = configure(log_format="json")
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        with bound(run_id=name):
            barrier.wait()
            logger.info(name)
            barrier.wait()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = entries(logged())
    assert len(found) == 2
    assert all(entry["run_id"] == entry["message"] for entry in found)


def test_an_unknown_id_is_a_mistake_of_ours():
    with pytest.raises(KeyError), bound(sha="abc"):
        pass


@pytest.mark.parametrize(
    ("level", "ours", "theirs"),
    [("DEBUG", "DIWE", "WE"), ("INFO", "IWE", "WE"), ("WARNING", "WE", "WE"), ("ERROR", "E", "E")],
)
def test_the_level_is_that_of_our_own_lines(
    configure: Callable[..., Logged], level: str, ours: str, theirs: str
):
    logged = configure(log_level=level)
    for name in ("service.x", "runners.x", "dashboards.x", "elsewhere.x", "httpx"):
        for severity in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger(name), severity)(name)
    words = [line.split()[1:] for line in logged().splitlines()]
    for name in ("service.x", "runners.x", "dashboards.x"):
        assert "".join(word[0] for word, of in words if of == name) == ours
    for name in ("elsewhere.x", "httpx"):
        assert "".join(word[0] for word, of in words if of == name) == theirs


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Set-Cookie", f"session={SECRET}")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """A port where an HTTP server answers with a cookie."""
    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask_over_http(port: int) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    with httpx.Client(headers=headers) as client:
        assert client.get(f"http://127.0.0.1:{port}/?token={SECRET}").status_code == 200
        assert client.get(f"http://ada:{SECRET}@127.0.0.1:{port}/").status_code == 200
        with pytest.raises(httpx.ConnectError):
            client.get(f"http://ada:{SECRET}@127.0.0.1:1/")


def send_a_message(_port: int) -> None:
    celery = make_app(Settings(broker_url=f"redis://:{SECRET}@127.0.0.1:1/0"))
    celery.conf.task_publish_retry = False
    try:
        celery.send_task(PLAN_TASK, args=["x"])
    except Exception:
        logger.exception("not sent")


def connect_to_postgres(_port: int) -> None:
    engine = make_engine(f"postgresql+psycopg://ada:{SECRET}@127.0.0.1:1/paceline")
    with pytest.raises(sa.exc.OperationalError) as caught:
        engine.connect()
    logger.error("no database", exc_info=caught.value)


def break_a_statement(_port: int) -> None:
    engine = make_engine("sqlite:///:memory:")
    with engine.connect() as connection:
        try:
            connection.execute(sa.text("insert into nowhere values (:secret)"), {"secret": SECRET})
        except sa.exc.OperationalError:
            logger.exception("not stored")


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    ("act", "num_lines"),
    [
        (ask_over_http, 0),
        (send_a_message, 1),
        (connect_to_postgres, 1),
        (break_a_statement, 1),
    ],
)
def test_secrets_are_not_logged(
    configure: Callable[..., Logged],
    port: int,
    act: Callable[[int], None],
    num_lines: int,
    log_format: str,
):
    """At our lowest level, and the libraries' own loggers left as we configure them."""
    logged = configure(log_level="DEBUG", log_format=log_format)
    act(port)
    text = logged()
    assert SECRET not in text
    assert (text.count("\n") >= num_lines) if num_lines else not text


@pytest.fixture
def worker(sessions: Sessions, tmp_path: Path) -> Worker:
    settings = Settings(data_dir=tmp_path)
    send = factories.unsent
    with transaction(sessions, send) as session:
        slot_id = factories.slot_id(session)
    return Worker(name="w-1", settings=settings, sessions=sessions, send=send, slot_id=slot_id)


@on_sqlite
def test_a_task_s_lines_carry_its_ids(
    worker: Worker,
    configure: Callable[..., Logged],
    monkeypatch: pytest.MonkeyPatch,
):
    logged = configure(log_format="json")
    messages: list[Message] = []
    with transaction(worker.sessions, messages.append) as session:
        job = factories.job(session)
        job_id, run_id = job.id, job.run_id
    monkeypatch.setattr("runners.execute.Measuring.run", lambda _self: logger.info("measuring"))
    celery = make_app(worker.settings)
    register(celery, worker)
    celery.tasks[EXECUTE_TASK]()
    found = entries(logged())
    assert {entry["worker"] for entry in found} == {"w-1"}
    (measuring,) = [entry for entry in found if entry["message"] == "measuring"]
    assert (measuring["run_id"], measuring["job_id"]) == (str(run_id), str(job_id))

    with transaction(worker.sessions, messages.append) as session:
        run_id = factories.run(session).id
    monkeypatch.setattr(
        "runners.tasks.plan_run", lambda *a: (logger.info("planning"), plan_run(*a))
    )
    celery.tasks[PLAN_TASK](str(run_id))
    found = entries(logged())
    assert len(found) == 2
    assert {(entry["run_id"], entry["worker"]) for entry in found} == {(str(run_id), "w-1")}


def test_a_trial_says_how_it_ended_under_its_id(tmp_path: Path, configure: Callable[..., Logged]):
    logged = configure(log_format="json")
    side = PreparedSide(
        python=tmp_path / "no-python",
        worktree=tmp_path,
        environment={},
        arguments=(),
        software={},
    )
    bench = Bench(
        sides={Role.CANDIDATE: side},
        launcher=local,
        library=tmp_path,
        limits=Limits(start_s=5, stall_s=5, kill_grace_s=1),
        artifacts=RunArtifacts(ArtifactStore(f"file://{tmp_path / 'artifacts'}"), "runs/x"),
        slot_id=UUID(int=7),
        check=lambda: None,
    )
    result = measure_solo(bench, factories.case(), Role.CANDIDATE)
    assert result.failure is not None
    assert result.failure.reason is FailureReason.LAUNCH_FAILED
    (entry,) = entries(logged())
    assert UUID(entry["trial_id"]) == result.trial_id
    assert entry["message"] == f"candidate of tinylm: {result.failure.detail}"

"""/projects and /clusters."""

import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.api import pointers, problem
from tests.conftest import on_sqlite


def test_registering_a_project_twice_changes_nothing(client: TestClient, tmp_path: Path):
    body = {"name": "mine", "source": str(tmp_path)}
    first, second = client.post("/projects", json=body), client.post("/projects", json=body)
    assert first.status_code == second.status_code == 201
    assert first.headers["location"] == "/projects/mine"
    assert first.json() == second.json() == client.get("/projects/mine").json()
    names = [project["name"] for project in client.get("/projects").json()["items"]]
    assert names == ["mine", "tinylm"]


def test_registering_a_project_with_another_source_is_a_conflict(
    client: TestClient, tmp_path: Path
):
    client.post("/projects", json={"name": "mine", "source": str(tmp_path)})
    other = client.post("/projects", json={"name": "mine", "source": "https://h/other"})
    assert str(tmp_path) in problem(other, 409)["detail"]


def test_many_may_register_a_project_at_once(client: TestClient, tmp_path: Path):
    statuses: list[int] = []
    barrier = threading.Barrier(5)

    def register() -> None:
        barrier.wait()
        body = {"name": "mine", "source": str(tmp_path)}
        statuses.append(client.post("/projects", json=body).status_code)

    threads = [threading.Thread(target=register) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 5


@on_sqlite
@pytest.mark.parametrize(
    ("name", "source", "pointer"),
    [
        ("", "https://h/p", "/name"),
        ("../x", "https://h/p", "/name"),
        ("n" * 101, "https://h/p", "/name"),
        ("mine", "", "/source"),
        ("mine", "relative/path", "/source"),
        ("mine", "/no/such/folder", "/source"),
        ("mine", "--upload-pack=x", "/source"),
        ("mine", "ext::sh -c x", "/source"),
        ("mine", "https://ada:s3cret@h/a.git", "/source"),
        ("mine", "HTTPS://t0ken@h/a.git", "/source"),
        ("mine", "ssh://git:s3cret@h/a", "/source"),
        ("mine", "https://h/\0", "/source"),
        ("mine", "/" + "x" * 1000, "/source"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_wrong_project_is_refused(client: TestClient, name: str, source: str, pointer: str):
    assert pointers(client.post("/projects", json={"name": name, "source": source})) == [pointer]


@on_sqlite
@pytest.mark.parametrize(
    "source", ["https://host/a.git", "ssh://git@host/a", "git@host:a/b.git", "file:///srv/a.git"]
)
def test_sources_git_can_clone(client: TestClient, source: str):
    assert client.post("/projects", json={"name": "p", "source": source}).status_code == 201


def test_clusters(client: TestClient):
    (cluster,) = client.get("/clusters").json()["items"]
    assert cluster == client.get("/clusters/local").json()
    assert (cluster["name"], cluster["max_world_size"]) == ("local", 4)

"""A standalone service that counts a commit against itself, with other arguments."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from service.config import Settings
from service.db import migration
from service.db.session import make_engine
from service.main import create_app
from tests import factories


@contextmanager
def service(folder: Path, manifest: str) -> Iterator[TestClient]:
    """A standalone service with a project of one commit."""
    repository = factories.repository(folder / "project")
    repository.commit("base", {"paceline.yml": manifest, "train.py": ""})
    settings = Settings(data_dir=folder / "data", start_s=60)
    settings.data_dir.mkdir()
    migration.upgrade(make_engine(settings.resolved_database_url))
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        source = {"name": "p", "source": str(repository.path)}
        assert client.post("/projects", json=source).status_code == 201
        yield client


def run(client: TestClient, *arguments: str, **body: Any) -> dict[str, Any]:
    """A run of the commit against itself with these arguments, once it has ended."""
    candidate = {"revision": "main", "arguments": arguments}
    asked = {"project": "p", "baseline": "main", "candidate": candidate, "kind": "static", **body}
    response = client.post("/runs", json=asked)
    assert response.status_code == 202, response.text
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(response.headers["location"]).json()
        if found["status"] in ("finished", "failed", "cancelled"):
            return found
        time.sleep(0.1)
    raise AssertionError(f"the run did not end: {found['headline']}")

"""Projects and clusters: what a run may name."""

import re
from pathlib import Path

from sqlalchemy.orm import Session

from service.db import catalog, models
from service.domain import Arrangement
from service.errors import Conflict, Refused

LOCAL_CLUSTER = "local"
# A user name in a web address is often a token.
_SECRET = re.compile(r"^(https?://[^/?#]*|\w+://[^/?#]*:[^/?#]*)@", re.IGNORECASE)
_URL = re.compile(r"^(https?|ssh|git|file)://|^[\w.-]+@[\w.-]+:")


def add_project(session: Session, *, name: str, source: str) -> models.Project:
    """Register a repository. Raises Refused for a source git cannot clone, Conflict for a name.

    Registering the same name and source again returns the project that is there.
    """
    if source.startswith("-"):
        raise Refused("source", "The source is a path or a URL; it may not begin with '-'.")
    if _SECRET.match(source):
        detail = (
            "The source holds a password or a token, which pages would show. Leave out all that "
            "stands between '//' and the host; workers read passwords from the file that "
            "PACELINE_GIT_CREDENTIALS names."
        )
        raise Refused("source", detail)
    if not _URL.match(source):
        path = Path(source)
        if not path.is_absolute() or not path.is_dir():
            detail = f"{source!r} is neither a URL nor the absolute path of a folder that exists."
            raise Refused("source", detail)
    row = models.Project(name=name, source=source)
    stored = catalog.find_or_add(session, row, name=name)
    if stored.source != source:
        raise Conflict(f"Project {name!r} exists with another source: {stored.source}.")
    return stored


def serve_cluster(
    session: Session, name: str, slot: str, *, num_cpus: int, num_devices: int
) -> models.Slot:
    """The slot by which this machine serves a cluster, both made where they are missing.

    A cluster is as large as its machines, which are alike: its only machine may have changed, a
    second one that differs is refused. Raises Refused.
    """
    size = num_devices or num_cpus
    row = models.Cluster(
        name=name,
        launcher="local",
        max_world_size=size,
        devices_per_node=num_devices,
        arrangement=Arrangement.LOCKSTEP,
    )
    cluster = catalog.find_or_add(session, row, name=name)
    stored = catalog.find_or_add(
        session, models.Slot(cluster_id=cluster.id, name=slot), cluster_id=cluster.id, name=slot
    )
    if (cluster.max_world_size, cluster.devices_per_node) != (size, num_devices):
        if catalog.num_slots(session, cluster.id) > 1:
            detail = (
                f"The machines of {name} have {cluster.max_world_size} CPUs or devices, this one "
                f"has {size}: it is not comparable to them. Give it a cluster of its own."
            )
            raise Refused("cluster", detail)
        cluster.max_world_size, cluster.devices_per_node = size, num_devices
    return stored

"""Projects and clusters: what a run may name."""

import re
from pathlib import Path

from sqlalchemy.orm import Session

from service.db import catalog, models
from service.domain import Arrangement
from service.errors import Conflict, Refused

LOCAL_CLUSTER = "local"
_URL = re.compile(r"^(https?|ssh|git|file)://|^[\w.-]+@[\w.-]+:")


def add_project(session: Session, *, name: str, source: str) -> models.Project:
    """Register a repository. Raises Refused for a source git cannot clone, Conflict for a name.

    Registering the same name and source again returns the project that is there.
    """
    if source.startswith("-"):
        raise Refused("source", "The source is a path or a URL; it may not begin with '-'.")
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


def seed_local_cluster(session: Session, *, num_cpus: int, num_devices: int) -> models.Cluster:
    """The `local` cluster, one node and one slot: this machine, as large as it is now."""
    row = models.Cluster(
        name=LOCAL_CLUSTER,
        launcher="local",
        max_world_size=num_devices or num_cpus,
        devices_per_node=num_devices,
        arrangement=Arrangement.LOCKSTEP,
    )
    cluster = catalog.find_or_add(session, row, name=LOCAL_CLUSTER)
    cluster.max_world_size, cluster.devices_per_node = num_devices or num_cpus, num_devices
    slot = models.Slot(cluster_id=cluster.id, name="0")
    catalog.find_or_add(session, slot, cluster_id=cluster.id, name="0")
    return cluster

"""The tables, in the order of a run's life: what is known, what is asked, what was measured."""

from service.db.models.access import Token
from service.db.models.catalog import (
    Case,
    Cluster,
    Environment,
    Project,
    Revision,
    Side,
    Slot,
)
from service.db.models.results import (
    Artifact,
    Comparison,
    Diagnosis,
    Look,
    Measurement,
    Pair,
    Trial,
)
from service.db.models.work import IdempotencyKey, Job, JobCase, Reconciliation, Run, Schedule

__all__ = [
    "Artifact",
    "Case",
    "Cluster",
    "Comparison",
    "Diagnosis",
    "Environment",
    "IdempotencyKey",
    "Job",
    "JobCase",
    "Look",
    "Measurement",
    "Pair",
    "Project",
    "Reconciliation",
    "Revision",
    "Run",
    "Schedule",
    "Side",
    "Slot",
    "Token",
    "Trial",
]

"""A process group that is none: one process that takes itself for a rank of many.

Collectives of the fake group return at once and move nothing. With FakeTensorMode tensors have
shapes and no data, so that a model of any size fits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as c10d
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from workloads.dist import Dist
from workloads.static.buckets import Buckets
from workloads.static.stages import without_neighbours

CPU = torch.device("cpu")


class _Rank(Dist):
    """Builds its meshes with data, since they are looked into, and replicas without."""

    def mesh(self, **sizes: int) -> DeviceMesh:
        with unset_fake_temporarily():
            return super().mesh(**sizes)

    def replicated(self, model: nn.Module, **_options: Any) -> nn.Module:
        return Buckets(model)


@contextmanager
def fake_world(world_size: int, rank: int) -> Iterator[Dist]:
    """This process as a rank of a world that is not there, with tensors that hold no data.

    Raises ValueError for a rank that the world does not have.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is none of a world of {world_size}; they begin with 0")
    c10d.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    dist = _Rank(rank=rank, world_size=world_size, device=CPU, device_name="cpu", init_time_s=0.0)
    try:
        with _real_meshes(), without_neighbours(), FakeTensorMode(allow_non_fake_inputs=True):
            yield dist
    finally:
        c10d.destroy_process_group()


@contextmanager
def _real_meshes() -> Iterator[None]:
    """Parts of a mesh, which torch makes of it, are looked into as well."""
    init = DeviceMesh.__init__

    def with_data(*args: Any, **kwargs: Any) -> None:
        with unset_fake_temporarily():
            init(*args, **kwargs)

    DeviceMesh.__init__ = with_data
    try:
        yield
    finally:
        DeviceMesh.__init__ = init

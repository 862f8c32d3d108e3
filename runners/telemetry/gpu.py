"""The GPUs that a trial may see, read through NVML (nvml is the module pynvml or stands for it)."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import pynvml

from runners.telemetry.readings import Readings

logger = logging.getLogger(__name__)

_NO_DRIVER = {pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED}

# Why clocks are lower than they might be: NVML API Reference, nvmlClocksEventReasons.
_REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
# Chosen by somebody, or nothing to do: no GPU is slowed down by these.
BENIGN = {"idle", "application_clocks"}


def reasons(bits: int) -> list[str]:
    """Names of clocks event reasons; one that is not known is named by its bit."""
    ones = [1 << place for place in range(bits.bit_length()) if bits >> place & 1]
    return [_REASONS.get(bit, f"{bit:#x}") for bit in ones]


def visible_uuids(
    value: str | None, uuids: Sequence[str], gpu_of_mig: Callable[[str], str]
) -> list[str]:
    """UUIDs of the GPUs that CUDA_VISIBLE_DEVICES lets a trial see; `uuids` are all, by index.

    A MIG device stands for its GPU, which `gpu_of_mig` gives. As CUDA does, what follows the first
    name of no device is not seen (CUDA C++ Programming Guide, CUDA Environment Variables). Indices
    are in PCI order, as CUDA's are where the GPUs of a node are of one kind.
    """
    if value is None:
        return list(uuids)
    found: dict[str, None] = {}
    for name in value.split(","):
        uuid = _uuid(name.strip(), uuids, gpu_of_mig)
        if uuid is None:
            break
        found[uuid] = None
    return list(found)


def _uuid(name: str, uuids: Sequence[str], gpu_of_mig: Callable[[str], str]) -> str | None:
    """The UUID of the GPU that an entry names: by index, the start of a UUID, or a MIG device."""
    if name.isdecimal():
        return uuids[int(name)] if int(name) < len(uuids) else None
    if name.startswith("MIG-GPU-"):  # MIG-GPU-UUID/gpu instance/compute instance, before R470
        name = name.removeprefix("MIG-").partition("/")[0]
    elif name.startswith("MIG-"):
        name = gpu_of_mig(name)
    matches = [uuid for uuid in uuids if name.startswith("GPU-") and uuid.startswith(name)]
    return matches[0] if len(matches) == 1 else None


class Gpus:
    """Reads the GPUs that a trial with this CUDA_VISIBLE_DEVICES may see; maybe there are none."""

    def __init__(self, visible: str | None, nvml: Any = pynvml) -> None:
        self._nvml = nvml
        self._readings = Readings(pynvml.NVMLError)
        self._closing = ExitStack()
        self._handles: dict[str, Any] = {}
        self._events: Any = None
        if self._has_driver():
            found = self._readings.take(gpus=lambda: _handles(nvml, visible))
            self._handles = found.get("gpus", {})
        if self._handles:
            self._events = self._readings.take(xids=self._watch_xids).get("xids")

    def read(self) -> dict[str, Any]:
        """What can be had now: of each GPU, and the XID errors since the last time."""
        if not self._handles:
            return {}
        gpus = [
            {"uuid": uuid} | self._readings.take(**_reads(self._nvml, handle))
            for uuid, handle in self._handles.items()
        ]
        return {"gpus": gpus} | self._readings.take(xids=self._new_xids)

    def close(self) -> None:
        """Let go of NVML, if it still answers."""
        with suppress(pynvml.NVMLError):
            self._closing.close()

    def _has_driver(self) -> bool:
        try:
            self._nvml.nvmlInit()
        except pynvml.NVMLError as error:
            if error.value not in _NO_DRIVER:
                logger.info("no GPU in the telemetry: %s", error)
            return False
        self._closing.callback(self._nvml.nvmlShutdown)
        return True

    def _watch_xids(self) -> Any:
        """An event set that hears of XID errors, once every GPU tells it."""
        events = self._nvml.nvmlEventSetCreate()
        self._closing.callback(self._nvml.nvmlEventSetFree, events)
        for handle in self._handles.values():
            kind = self._nvml.nvmlEventTypeXidCriticalError
            self._nvml.nvmlDeviceRegisterEvents(handle, kind, events)
        return events

    def _new_xids(self) -> list[dict[str, Any]] | None:
        """None where there is none."""
        if self._events is None:
            return None
        return [
            {"uuid": self._nvml.nvmlDeviceGetUUID(event.device), "xid": int(event.eventData)}
            for event in _pending(self._nvml, self._events)
        ] or None


def _handles(nvml: Any, visible: str | None) -> dict[str, Any]:
    """NVML's handles of the GPUs that are visible, by UUID."""

    def gpu_of_mig(uuid: str) -> str:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        gpu: str = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device))
        return gpu

    handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
    found = {nvml.nvmlDeviceGetUUID(handle): handle for handle in handles}
    return {uuid: found[uuid] for uuid in visible_uuids(visible, list(found), gpu_of_mig)}


def _reads(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    """How to read what of a GPU, in SI units."""

    def clock_hz(kind: int) -> float:
        return float(nvml.nvmlDeviceGetClockInfo(handle, kind)) * 1e6  # from MHz

    def num_ecc_errors(kind: int) -> int:
        found: int = nvml.nvmlDeviceGetTotalEccErrors(handle, kind, nvml.NVML_VOLATILE_ECC)
        return found

    return {
        "busy_ratio": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        "sm_clock_hz": lambda: clock_hz(nvml.NVML_CLOCK_SM),
        "memory_clock_hz": lambda: clock_hz(nvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,  # from mW
        "used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        # The name of old drivers, which the new ones still know.
        "throttle_reasons": lambda: reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        "num_ecc_corrected": lambda: num_ecc_errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "num_ecc_uncorrected": lambda: num_ecc_errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    }


def _pending(nvml: Any, events: Any) -> Iterator[Any]:
    """Events that wait to be heard of."""
    while True:
        try:
            event = nvml.nvmlEventSetWait_v2(events, 0)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_TIMEOUT:
                return
            raise
        yield event

# ruff: noqa: N802  (NVML's names)
"""What is read of a trial's GPUs, with a stand-in for NVML."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from runners.telemetry.gpu import Gpus, reasons, visible_uuids

UUIDS = ["GPU-0a", "GPU-1b", "GPU-1c"]
MIGS = {"MIG-77": "GPU-1b"}


class FakeNvml:
    """What gpu.py asks of pynvml: a handle is a UUID, and `broken` names functions that fail."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_VOLATILE_ECC = 1, 2, 0, 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, num_gpus: int = 3, **broken: int) -> None:
        self.uuids = UUIDS[:num_gpus]
        self.broken = broken
        self.num_inits = self.num_event_sets = 0
        self.watched: list[tuple[str, int]] = []
        self.xids: list[tuple[str, int]] = []

    def __getattribute__(self, name: str) -> Any:
        """Whatever is broken raises its error when called."""
        if name.startswith("nvml") and (code := self.broken.get(name)):
            return lambda *_: _raise(pynvml.NVMLError(code))
        return super().__getattribute__(name)

    def nvmlInit(self) -> None:
        self.num_inits += 1

    def nvmlShutdown(self) -> None:
        self.num_inits -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, device: str) -> str:
        return MIGS[device]

    def nvmlDeviceGetUUID(self, device: str) -> str:
        return device

    def nvmlDeviceGetUtilizationRates(self, _device: str) -> Any:
        return SimpleNamespace(gpu=93, memory=40)

    def nvmlDeviceGetClockInfo(self, _device: str, kind: int) -> int:
        return {1: 1980, 2: 2619}[kind]

    def nvmlDeviceGetTemperature(self, _device: str, _sensor: int) -> int:
        return 61

    def nvmlDeviceGetPowerUsage(self, _device: str) -> int:
        return 612_500

    def nvmlDeviceGetMemoryInfo(self, _device: str) -> Any:
        return SimpleNamespace(used=2**34, total=2**37)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _device: str) -> int:
        return 0x44

    def nvmlDeviceGetTotalEccErrors(self, _device: str, kind: int, counter: int) -> int:
        assert counter == self.NVML_VOLATILE_ECC
        return {0: 7, 1: 2}[kind]

    def nvmlEventSetCreate(self) -> str:
        self.num_event_sets += 1
        return "events"

    def nvmlEventSetFree(self, _events: str) -> None:
        assert self.num_inits > 0, "NVML is let go of last"
        self.num_event_sets -= 1

    def nvmlDeviceRegisterEvents(self, device: str, kind: int, _events: str) -> None:
        self.watched.append((device, kind))

    def nvmlEventSetWait_v2(self, _events: str, timeout_ms: int) -> Any:
        assert timeout_ms == 0, "a sample does not wait"
        if not self.xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        device, xid = self.xids.pop(0)
        return SimpleNamespace(device=device, eventData=xid)


def _raise(error: Exception) -> None:
    raise error


def test_a_reading_is_in_si_units():
    nvml = FakeNvml(num_gpus=1)
    assert Gpus(None, nvml).read() == {
        "gpus": [
            {
                "uuid": "GPU-0a",
                "busy_ratio": 0.93,
                "sm_clock_hz": 1.98e9,
                "memory_clock_hz": 2.619e9,
                "temperature_c": 61,
                "power_w": 612.5,
                "used_bytes": 2**34,
                "throttle_reasons": ["power_cap", "hardware_thermal"],
                "num_ecc_corrected": 7,
                "num_ecc_uncorrected": 2,
            }
        ]
    }


def test_only_the_trial_s_gpus_are_read_and_watched():
    nvml = FakeNvml()
    found = Gpus("2,0", nvml).read()
    assert [gpu["uuid"] for gpu in found["gpus"]] == ["GPU-1c", "GPU-0a"]
    assert nvml.watched == [("GPU-1c", 8), ("GPU-0a", 8)]


def test_xid_errors_are_told_once_with_their_gpu():
    nvml = FakeNvml()
    gpus = Gpus(None, nvml)
    nvml.xids += [("GPU-1b", 79), ("GPU-0a", 31)]
    assert gpus.read()["xids"] == [{"uuid": "GPU-1b", "xid": 79}, {"uuid": "GPU-0a", "xid": 31}]
    assert "xids" not in gpus.read()


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED]
)
def test_without_a_driver_there_is_nothing_and_nothing_to_tell(
    code: int, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    gpus = Gpus(None, FakeNvml(nvmlInit=code))
    assert gpus.read() == {}
    gpus.close()
    assert not caplog.records


def test_a_driver_that_does_not_answer_is_told_of(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    nvml = FakeNvml(nvmlInit=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert Gpus(None, nvml).read() == {}
    assert "no GPU in the telemetry: RM has detected an NVML/RM version mismatch" in caplog.text


def test_without_a_gpu_there_is_nothing():
    assert Gpus(None, FakeNvml(num_gpus=0)).read() == {}
    assert Gpus("", FakeNvml()).read() == {}


def test_what_a_gpu_does_not_tell_is_absent_and_why_is_told_once(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level("INFO")
    unsupported = pynvml.NVML_ERROR_NOT_SUPPORTED
    broken = dict.fromkeys(
        [
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetTotalEccErrors",
            "nvmlDeviceRegisterEvents",
        ],
        unsupported,
    )
    gpus = Gpus(None, FakeNvml(num_gpus=2, **broken))
    for _ in range(2):
        found = gpus.read()
    assert "xids" not in found
    names = {"uuid", "sm_clock_hz", "memory_clock_hz", "temperature_c", "power_w", "used_bytes"}
    assert all(set(gpu) == names | {"throttle_reasons"} for gpu in found["gpus"])
    told = [record.getMessage().partition(" in the ")[0] for record in caplog.records]
    assert told == ["no xids", "no busy_ratio", "no num_ecc_corrected", "no num_ecc_uncorrected"]


def test_a_gpu_that_is_lost_keeps_its_name():
    nvml = FakeNvml(num_gpus=1)
    gpus = Gpus(None, nvml)
    lost = [name for name in dir(nvml) if name.startswith(("nvmlDeviceGet", "nvmlEventSetWait"))]
    nvml.broken |= dict.fromkeys(lost, pynvml.NVML_ERROR_GPU_IS_LOST)
    assert gpus.read() == {"gpus": [{"uuid": "GPU-0a"}]}
    nvml.broken["nvmlEventSetFree"] = pynvml.NVML_ERROR_GPU_IS_LOST
    gpus.close()
    assert nvml.num_inits == 0


@pytest.mark.parametrize("broken", ["", "nvmlDeviceRegisterEvents", "nvmlDeviceGetCount"])
def test_all_that_was_taken_of_nvml_is_given_back(broken: str):
    nvml = FakeNvml(**({broken: pynvml.NVML_ERROR_UNKNOWN} if broken else {}))
    gpus = Gpus(None, nvml)
    gpus.read()
    gpus.close()
    assert (nvml.num_inits, nvml.num_event_sets) == (0, 0)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, ["GPU-0a", "GPU-1b", "GPU-1c"]),
        ("", []),
        ("1", ["GPU-1b"]),
        ("2, 0", ["GPU-1c", "GPU-0a"]),
        ("0,0", ["GPU-0a"]),
        ("0,-1,1", ["GPU-0a"]),
        ("0,3,1", ["GPU-0a"]),
        ("NoDevFiles", []),
        ("GPU-1c,GPU-0", ["GPU-1c", "GPU-0a"]),
        ("GPU-1", []),
        ("MIG-77,GPU-1b", ["GPU-1b"]),
        ("MIG-GPU-1c/1/0", ["GPU-1c"]),
    ],
)
def test_gpus_are_named_by_index_uuid_or_mig_device(value: str | None, found: list[str]):
    assert visible_uuids(value, UUIDS, MIGS.__getitem__) == found


def test_a_mig_device_stands_for_its_gpu():
    (found,) = Gpus("MIG-77", FakeNvml()).read()["gpus"]
    assert found["uuid"] == "GPU-1b"


def test_reasons_have_names_and_those_of_a_newer_driver_their_bit():
    assert reasons(0) == []
    assert reasons(0x1 | 0x8 | 0x800) == ["idle", "hardware_slowdown", "0x800"]


def test_nvml_has_every_function_and_name_that_is_used():
    for name in dir(FakeNvml):
        if name.startswith(("nvml", "NVML")):
            assert hasattr(pynvml, name), name
    for name in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "nvmlEventTypeXidCriticalError"):
        assert getattr(pynvml, name) == getattr(FakeNvml, name)

"""Query fields of nvidia-smi and ixsmi that envcheck knows; drivers add new ones, so only half of a header must be
known."""

from __future__ import annotations

import re

BRAND = re.compile(
    r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|RTX|GTX|Iluvatar|Orin|A100|A800|H100|H800|H20|V100|BI-V)\b",
    re.IGNORECASE,
)
# Query field → field of Device, or of a process.
FIELDS = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
    "temperature.gpu": "temperature_c",
    "fan.speed": "fan_percent",
    "pstate": "perf_state",
    "memory.used": "memory_used_mib",
    "memory.total": "memory_total_mib",
    "utilization.gpu": "utilization_percent",
    "power.draw": "power_w",
    "gpu.power.draw": "power_w",  # CoreX 4
    "power.limit": "power_limit_w",
    "gpu.power.limit": "power_limit_w",
    "clocks.sm": "clock_sm_mhz",
    "clocks.current.sm": "clock_sm_mhz",
    "clocks.mem": "clock_memory_mhz",
    "clocks.current.memory": "clock_memory_mhz",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "mig.mode.current": "mig_mode",
    "persistence_mode": "persistence",
}
PROCESS = {"pid": "pid", "process_name": "name", "name": "name", "used_memory": "memory", "used_gpu_memory": "memory"}
NO_DEVICE_A_ROW = {"retired_pages.address", "retired_pages.cause", "memory", "graphics", "mem", "gr"}
GROUPS = {"memory", "power", "clocks", "clocks_throttle_reasons", "clocks_event_reasons",
           "clocks_event_reasons_counters", "ecc", "mig", "utilization", "temperature",
           "pci", "pcie", "encoder", "retired_pages", "remapped_rows",
           "gom",
           "driver_model", "accounting", "inforom", "enforced", "fan", "fabric", "platform", "module", "gsp", "c2c",
           "dramEncryption", "protected_memory", "power_smoothing", "vgpu_driver_capability", "vgpu_device_capability",
           "compute_cap", "edpp_multiplier", "gpu_recovery_action", "hostname", "ixml_version"}  # fmt: skip
ALONE = {"timestamp", "driver_version", "count", "serial", "vbios_version", "display_mode", "display_active",
          "display_attached", "compute_mode", "addressing_mode", "gpu_serial", "gpu_util", "gpu_utilization",
          "mem_util",
          "mem_utilization", "max_memory_usage", "time", "cuda_version", "kmd_version", "mode", "board_id"}  # fmt: skip

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports of neuron-monitor on standard input as CloudWatch embedded metrics on standard output.

    neuron-monitor | neuron-monitor-cloudwatch.py --namespace NAMESPACE --region REGION

Each line is one event in the embedded metric format; the CloudWatch agent or a log driver sends it.
Nothing here talks to AWS. Python's standard library is all it needs.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator

METRICS = dict[str, tuple[str, float]]  # name: unit, value


def event(namespace: str, dimensions: dict[str, str], metrics: METRICS) -> dict:
    kept = {key: value for key, value in dimensions.items() if value}
    return {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": namespace,
                    "Dimensions": [list(kept)],
                    "Metrics": [
                        {"Name": name, "Unit": unit} for name, (unit, _) in metrics.items()
                    ],
                }
            ],
        },
        **kept,
        **{name: value for name, (_, value) in metrics.items()},
    }


def of_process(data: dict) -> Iterator[tuple[dict[str, str], METRICS]]:
    report = data["report"]
    tag = {"RuntimeTag": data["neuron_runtime_tag"]}
    cores = report.get("neuroncore_counters", {}).get("neuroncores_in_use", {})
    for core, use in cores.items():
        yield (
            tag | {"NeuronCore": core},
            {
                "NeuronCoreUtilization": ("Percent", use["neuroncore_utilization"]),
                "NeuronCoreFlops": ("Count", use["flops"]),
            },
        )
    metrics: METRICS = {}
    if stats := report.get("execution_stats"):
        for kind, count in stats["execution_summary"].items():
            metrics["Executions." + kind] = ("Count", count)
        for kind, count in stats["error_summary"].items():
            metrics["ExecutionErrors." + kind] = ("Count", count)
        for name, seconds in (stats["latency_stats"]["total_latency"] or {}).items():
            metrics["ExecutionLatency." + name] = ("Seconds", seconds)
    if memory := report.get("memory_used"):
        used = memory["neuron_runtime_used_bytes"]
        metrics["HostMemoryUsed"] = ("Bytes", used["host"])
        metrics["DeviceMemoryUsed"] = ("Bytes", used["neuron_device"])
    if usage := report.get("neuron_runtime_vcpu_usage"):
        for kind, percent in usage["vcpu_usage"].items():
            metrics["RuntimeVcpuUsage." + kind] = ("Percent", percent)
    if metrics:
        yield tag, metrics


def of_system(data: dict) -> Iterator[tuple[dict[str, str], METRICS]]:
    metrics: METRICS = {}
    for kind, percent in ((data.get("vcpu_usage") or {}).get("average_usage") or {}).items():
        metrics["VcpuUsage." + kind] = ("Percent", percent)
    if memory := data.get("memory_info"):
        metrics["MemoryUsed"] = ("Bytes", memory["memory_used_bytes"])
        metrics["SwapUsed"] = ("Bytes", memory["swap_used_bytes"])
    if metrics:
        yield {}, metrics
    for device in (data.get("neuron_hw_counters") or {}).get("neuron_devices") or []:
        counts = {k: v for k, v in device.items() if k != "neuron_device_index"}
        yield (
            {"NeuronDevice": str(device["neuron_device_index"])},
            {name: ("Count", count) for name, count in counts.items()},
        )


def events(report: dict, namespace: str, region: str) -> Iterator[dict]:
    instance = report["instance_info"]
    common = {
        "InstanceId": instance["instance_id"],
        "InstanceType": instance["instance_type"],
        "Region": region,
    }
    for data in report["neuron_runtime_data"]:
        for dimensions, metrics in of_process(data):
            yield event(namespace, common | dimensions, metrics)
    for dimensions, metrics in of_system(report["system_data"]):
        yield event(namespace, common | dimensions, metrics)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Reports of neuron-monitor on standard input as CloudWatch embedded metrics."
    )
    parser.add_argument("--namespace", required=True, help="CloudWatch namespace")
    parser.add_argument("--region", required=True, help="AWS region, a dimension of every metric")
    options = parser.parse_args()
    for line in sys.stdin:
        try:
            found = list(events(json.loads(line), options.namespace, options.region))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"neuron-monitor-cloudwatch: a report is left out: {error!r}", file=sys.stderr)
            continue
        for item in found:
            print(json.dumps(item, separators=(",", ":")))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)

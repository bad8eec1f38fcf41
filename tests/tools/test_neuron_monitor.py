# SPDX-License-Identifier: Apache-2.0
"""neuron-monitor, its schema and its companions as processes. What is expected comes from the SDK
documentation (neuron-monitor user guide), the Prometheus client's parser, and the worker's own log
of when it was busy."""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARE = ROOT / "packaging" / "share"
FAST = {
    "period": "300ms",
    "neuron_runtimes": [
        {
            "tag_filter": ".*",
            "metrics": [
                {"type": "neuroncore_counters"},
                {"type": "memory_used"},
                {"type": "neuron_runtime_vcpu_usage"},
                {"type": "execution_stats"},
            ],
        }
    ],
    "system_metrics": [
        {"type": "vcpu_usage"},
        {"type": "memory_info"},
        {"type": "neuron_hw_counters"},
    ],
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "monitor.conf"
    path.write_text(json.dumps(FAST))
    return path


@pytest.fixture
def worker(environment: dict, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    started = []

    def start(seconds: float, share: float, **variables: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).parent / "worker.py",
                str(seconds),
                str(share),
                tmp_path / "log.json",
            ],
            env=environment | {"NEURON_RT_NUM_CORES": "1"} | variables,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def monitor(stage: Path, environment: dict) -> Iterator[Callable[..., subprocess.Popen]]:
    started = []

    def start(*words: str | Path, **variables: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [stage / "bin" / "neuron-monitor", *words],
            env=environment | variables,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=10) == 0


def lines(process: subprocess.Popen, count: int) -> list[tuple[float, dict]]:
    """The next reports, with the time at which each came."""
    assert process.stdout is not None
    found = []
    for _ in range(count):
        line = process.stdout.readline()
        found.append((time.monotonic(), json.loads(line)))
    return found


def sampled_between(reports: list[tuple[float, dict]]) -> tuple[float, float]:
    """When the monitor took its first and its last sample, by its own periods.

    A line comes some time after its sample: the one that was held up least tells when that was.
    """
    first, passed = reports[0][0], 0.0
    for came, report in reports[1:]:
        group = report["neuron_runtime_data"][0]["report"]["neuroncore_counters"]
        passed += group["period"]
        first = min(first, came - passed)
    return first, first + passed


def test_utilisation_is_within_two_points_of_the_programs_own_log(
    worker: Callable, monitor: Callable, config: Path, tmp_path: Path
) -> None:
    schema = json.loads((SHARE / "schemas" / "neuron-monitor.schema.json").read_text())
    # On a busy host the worker itself is held up between its clock and the core: one run in which
    # the two agree is enough.
    for _attempt in range(4):
        process = worker(2.5, 0.6, NEURON_PROCESS_TAG="trainer")
        got = lines(monitor("-c", config), 6)
        process.wait(timeout=30)
        log = json.loads((tmp_path / "log.json").read_text())
        start, end = sampled_between(got)
        busy = sum(max(0.0, min(stop, end) - max(begin, start)) for begin, stop in log)
        use = 0.0
        for _, report in got[1:]:
            [data] = report["neuron_runtime_data"]
            assert data["neuron_runtime_tag"] == "trainer"
            group = data["report"]["neuroncore_counters"]
            core = group["neuroncores_in_use"]["0"]
            use += core["neuroncore_utilization"] * group["period"]
            assert core["v3d"].keys() == {"nc_v3.0", "nc_v3.1"}
        if abs(use - 100 * busy) <= 2 * (end - start):
            break
    assert use / (end - start) == pytest.approx(100 * busy / (end - start), abs=2)
    stats = data["report"]["execution_stats"]
    assert stats["execution_summary"]["completed"] > 0
    assert sum(stats["error_summary"].values()) == 0
    durations = sorted(stop - begin for begin, stop in log)
    latency = stats["latency_stats"]["total_latency"]
    assert durations[0] * 0.9 < latency["p50"] < durations[-1] * 1.1
    assert stats["latency_stats"]["device_latency"]["p50"] <= latency["p50"]
    pytest.importorskip("jsonschema").validate(report, schema)


def test_an_execution_counts_while_it_runs(
    monitor: Callable, config: Path, environment: dict
) -> None:
    """One execution of seconds: its core is in use all that time, and nothing has completed."""
    script = """
import sys, numpy as np, opennrt
sys.path.insert(0, sys.argv[1])
from worker import model
with opennrt.Runtime() as runtime:
    loaded = model(runtime, 2048, 400)
    data = runtime.tensor(np.ones((2048, 2048), "f4"))
    out = runtime.tensor(np.zeros((2048, 2048), "f4"))
    print("begins", flush=True)
    loaded.execute({"input0": data, "input1": data}, {"output0": out})
    print("ends", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parent)],
        env=environment | {"NEURON_RT_NUM_CORES": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.2)
    reports = lines(monitor("-c", config), 3)
    running = not select.select([process.stdout], [], [], 0)[0]
    found = [report["neuron_runtime_data"][0]["report"] for _, report in reports]
    process.stdin.close()
    assert process.stdout.readline() == "ends\n"
    assert process.wait(timeout=60) == 0
    if not running:
        pytest.skip("the execution was over before three reports had come")
    for report in found[1:]:
        core = report["neuroncore_counters"]["neuroncores_in_use"]["0"]
        assert core["neuroncore_utilization"] > 99
        assert report["execution_stats"]["execution_summary"]["completed"] == 0


def test_memory_agrees_with_the_runtime(
    holder: Callable, monitor: Callable, config: Path, environment: dict
) -> None:
    """nrt_get_vnc_memory_stats() of the process itself is what the monitor says of it."""
    script = """
import ctypes, json, sys, numpy as np, opennrt
sys.path.insert(0, sys.argv[1])
from worker import model
with opennrt.Runtime() as runtime:
    loaded = model(runtime)
    kept = runtime.tensor(np.zeros(1000000, "f4"))
    stats = (ctypes.c_uint64 * 2)()
    size = ctypes.c_size_t()
    lib = ctypes.CDLL(sys.argv[2])
    assert lib.nrt_get_vnc_memory_stats(0, stats, 16, ctypes.byref(size)) == 0
    print(stats[0], flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parent), environment["OPENNRT_LIBNRT"]],
        env=environment | {"NEURON_RT_NUM_CORES": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    used = int(process.stdout.readline())
    [(_, report)] = lines(monitor("-c", config), 1)
    memory = report["neuron_runtime_data"][0]["report"]["memory_used"]
    total = memory["neuron_runtime_used_bytes"]
    assert total["neuron_device"] == used
    breakdown = total["usage_breakdown"]
    assert sum(breakdown["neuroncore_memory_usage"]["0"].values()) == used
    assert sum(breakdown["host"].values()) == total["host"] > 0
    [shown] = memory["loaded_models"]
    assert shown["name"] == "worker" and shown["model_id"] == 1001
    code = shown["subgraphs"]["sg_00"]["memory_used_bytes"]["usage_breakdown"]["neuron_device"]
    assert code["model_code"] == breakdown["neuroncore_memory_usage"]["0"]["model_code"]
    process.stdin.close()
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("variables", [{"OPENNRT_EMULATE": "none"}, {"OPENNRT_EMULATE": "trn9"}])
def test_without_a_device_it_still_streams(monitor: Callable, variables: dict) -> None:
    [(_, report)] = lines(monitor(NEURON_RT_LOG_LEVEL="DEBUG", **variables), 1)
    assert report["neuron_runtime_data"] == []
    counters = report["system_data"]["neuron_hw_counters"]
    assert counters["neuron_devices"] is None and counters["error"]
    assert report["neuron_hardware_info"]["error"]


def test_mistakes_are_one_line_and_exit_1(run: Callable, tmp_path: Path) -> None:
    bad = tmp_path / "bad.conf"
    for text in ('{"period": "soon"}', "{", "[]", '{"system_metrics": [{"type": "x"}]}', "{}"):
        bad.write_text(text)
        told = run("neuron-monitor", "-c", bad)
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1), text
    for words in (["-c", tmp_path / "missing"], ["--verbose", "9"], ["--once"], ["x"]):
        told = run("neuron-monitor", *words)
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1), words


def test_a_killed_process_is_gone_from_the_next_line(
    worker: Callable, monitor: Callable, config: Path
) -> None:
    process = worker(60, 0.5)
    stream = monitor("-c", config)
    [(_, report)] = lines(stream, 1)
    assert len(report["neuron_runtime_data"]) == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    lines(stream, 1)
    assert lines(stream, 1)[0][1]["neuron_runtime_data"] == []


def test_it_ends_when_its_reader_does(stage: Path, environment: dict) -> None:
    process = subprocess.Popen(
        [stage / "bin" / "neuron-monitor"], env=environment, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=10) == 0


class Exporter:
    """neuron-monitor piped into the exporter on a free port."""

    def __init__(self, stage: Path, environment: dict, config: Path) -> None:
        monitor = stage / "bin" / "neuron-monitor"
        self.monitor = subprocess.Popen(
            [monitor, "-c", config], env=environment, stdout=subprocess.PIPE
        )
        self.server = subprocess.Popen(
            [
                stage / "bin" / "neuron-monitor-prometheus.py",
                "--port=0",
                "--address=127.0.0.1",
            ],
            stdin=self.monitor.stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.monitor.stdout.close()
        self.port = int(re.search(r":(\d+)/metrics", self.server.stderr.readline()).group(1))

    def get(self, path: str = "/metrics", accept: str = "text/plain") -> tuple[str, str]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept}
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return answer.headers["Content-Type"], answer.read().decode()
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        self.monitor.terminate()
        assert self.monitor.wait(timeout=10) == 0
        assert self.server.wait(timeout=10) == 0
        self.server.stderr.close()


@pytest.fixture
def exporter(stage: Path, environment: dict, config: Path) -> Iterator[Exporter]:
    if not (stage / "bin" / "neuron-monitor-prometheus").exists():
        pytest.skip("built without Boost")
    made = Exporter(stage, environment, config)
    yield made
    made.close()


# Names and labels: the vendor's Grafana dashboard and documentation.
GAUGES = {
    "neuroncore_utilization_ratio": {"neuroncore", "runtime_tag"},
    "neuron_runtime_memory_used_bytes": {"memory_location", "runtime_tag"},
    "neuroncore_memory_usage_constants": {"neuroncore", "memory_location", "runtime_tag"},
    "neuroncore_memory_usage_model_code": {"neuroncore", "memory_location", "runtime_tag"},
    "neuroncore_memory_usage_model_shared_scratchpad": {
        "neuroncore",
        "memory_location",
        "runtime_tag",
    },
    "neuroncore_memory_usage_runtime_memory": {"neuroncore", "memory_location", "runtime_tag"},
    "neuroncore_memory_usage_tensors": {"neuroncore", "memory_location", "runtime_tag"},
    "neuron_runtime_vcpu_usage_ratio": {"usage_type", "runtime_tag"},
    "execution_latency_seconds": {"percentile", "runtime_tag"},
    "system_memory_total_bytes": set(),
    "system_memory_used_bytes": set(),
    "system_swap_total_bytes": set(),
    "system_swap_used_bytes": set(),
    "system_vcpu_count": set(),
    "system_vcpu_usage_ratio": {"usage_type"},
}
COMMON = {
    "instance_name",
    "instance_id",
    "instance_type",
    "availability_zone",
    "region",
    "subnet_id",
}


def test_the_prometheus_clients_parsers_read_the_exporter(
    exporter: Exporter, worker: Callable
) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    process = worker(60, 0.5, NEURON_PROCESS_TAG="app")
    time.sleep(1)
    kind, text = exporter.get()
    assert kind.startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    for name, labels in GAUGES.items():
        assert families[name].type == "gauge", name
        for sample in families[name].samples:
            assert set(sample.labels) == COMMON | labels, name
    assert exporter.get("/")[1].splitlines()[0] == text.splitlines()[0]
    kind, text = exporter.get(accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    families = {f.name: f for f in openmetrics.text_string_to_metric_families(text)}
    for name in ("execution_errors", "execution_status", "hardware_ecc_events"):
        assert families[name].type == "counter"
    completed = [
        s.value
        for s in families["execution_status"].samples
        if s.name == "execution_status_total" and s.labels["status_type"] == "completed"
    ]
    assert completed[0] > 0
    process.kill()
    process.wait()
    time.sleep(1)
    assert "runtime_tag" not in exporter.get()[1]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        exporter.get("/other")


def test_the_exporter_tells_what_is_wrong(run: Callable, exporter: Exporter) -> None:
    for words in (["--port", "x"], ["--port", "99999"], ["--enable-k8s-info"], ["x"]):
        told = run("neuron-monitor-prometheus.py", *words)
        assert told.returncode == 1 and told.stderr.count("\n") == 1
    told = run("neuron-monitor-prometheus", "--address=127.0.0.1", f"--port={exporter.port}")
    assert told.returncode == 1 and "can't listen" in told.stderr


def dashboard_queries() -> list[str]:
    board = json.loads((SHARE / "grafana" / "neuron-monitor.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


def test_every_query_of_dashboard_and_alerts_gives_a_series_in_prometheus(
    exporter: Exporter, worker: Callable, tmp_path: Path
) -> None:
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("prometheus is not installed")
    rules = SHARE / "prometheus" / "neuron-alerts.yml"
    config = tmp_path / "prometheus.yml"
    config.write_text(
        f"""
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: neuron
    static_configs: [{{targets: ["127.0.0.1:{exporter.port}"]}}]
"""
    )
    worker(60, 0.5)
    port = free_port()
    server = subprocess.Popen(
        [
            prometheus,
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30  # rates need some scrapes
        missing = dashboard_queries()
        while missing and time.monotonic() < deadline:
            time.sleep(0.3)
            missing = [q for q in missing if not ask(port, "query", query=q)["data"]["result"]]
        assert missing == []
        groups = ask(port, "rules")["data"]["groups"]
        told = [rule for group in groups for rule in group["rules"]]
        assert told and all(rule["health"] == "ok" for rule in told), told
    finally:
        server.terminate()
        server.wait(timeout=20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port: int, what: str, **parameters: str) -> dict:
    query = urllib.parse.urlencode(parameters)
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v1/{what}?{query}", timeout=10
            ) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_the_service_is_one_that_systemd_takes(stage: Path) -> None:
    """Words of systemd's own check; the program of the unit is the installed one."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None or shutil.which("man") is None:
        pytest.skip("systemd-analyze or man is not installed")
    unit = ROOT / "packaging" / "systemd" / "neuron-monitor-prometheus.service"
    told = subprocess.run(
        [analyze, "verify", unit],
        env=os.environ | {"MANPATH": str(stage / "share" / "man")},
        capture_output=True,
        text=True,
    )
    assert unit.name not in told.stderr, told.stderr  # nothing is said of our unit
    # Both ends of its pipe are programs of the installation, with flags that they know.
    command = re.search(r"^ExecStart=/bin/sh -c 'exec (.*)'$", unit.read_text(), re.M).group(1)
    recipe = (ROOT / "packaging" / "docker" / "neuron-monitor.Dockerfile").read_text()
    for line in (command, json.loads(re.search(r"^CMD (.*)$", recipe, re.M).group(1))[2]):
        names = re.findall(r"/opt/opennrt/bin/(\S+)", line)
        assert len(names) == 2 and all((stage / "bin" / name).exists() for name in names), line


def test_cloudwatch_lines_are_embedded_metrics(
    stage: Path, run: Callable, monitor: Callable
) -> None:
    """The embedded metric format of the CloudWatch documentation: _aws.Timestamp in ms, and for
    each directive namespace, dimensions and metrics whose names are members of the line."""
    process = monitor()
    line = process.stdout.readline()
    told = subprocess.run(
        [stage / "bin" / "neuron-monitor-cloudwatch.py", "--namespace=test", "--region=us-west-2"],
        input=line,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert told.returncode == 0, told.stderr
    emitted = [json.loads(text) for text in told.stdout.splitlines()]
    assert emitted
    for event in emitted:
        meta = event["_aws"]
        assert abs(meta["Timestamp"] / 1000 - time.time()) < 60
        for directive in meta["CloudWatchMetrics"]:
            assert directive["Namespace"] == "test"
            for keys in directive["Dimensions"]:
                assert len(keys) <= 30 and all(isinstance(event[key], str) for key in keys)
            for metric in directive["Metrics"]:
                assert isinstance(event[metric["Name"]], (int, float))
                assert metric["Unit"] in {"Percent", "Bytes", "Seconds", "Count"}

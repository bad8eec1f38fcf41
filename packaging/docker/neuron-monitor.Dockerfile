# SPDX-License-Identifier: Apache-2.0
# Neuron metrics for Prometheus on port 8000, from a machine directory of the host:
#   docker build -f packaging/docker/neuron-monitor.Dockerfile -t neuron-monitor .
#   docker run --pid=host --user "$(id -u)" -p 8000:8000 \
#     -e OPENNRT_EMULATE=trn2.48xlarge -e OPENNRT_MACHINE_DIR=/machines \
#     -v "$OPENNRT_MACHINE_DIR:/machines:ro" neuron-monitor
# --pid=host: pids, host memory and vCPU time of the processes; without it their tags remain.
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends git make ca-certificates
COPY . /src
WORKDIR /src
RUN packaging/install-deps demo && make stage

FROM debian:12-slim
COPY --from=build /src/build/stage/bin/neuron-monitor /src/build/stage/bin/neuron-monitor-prometheus \
  /opt/opennrt/bin/
EXPOSE 8000
CMD ["/bin/sh", "-c", "exec /opt/opennrt/bin/neuron-monitor $NEURON_MONITOR_ARGS | /opt/opennrt/bin/neuron-monitor-prometheus $NEURON_EXPORTER_ARGS"]

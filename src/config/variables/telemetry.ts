import { flag, httpUrl, oneOf } from "../formats.ts";
import { variable } from "../variable.ts";

/** The agent's OpenTelemetry settings. */
export const telemetryVariables = {
  otelEnabled: variable("SERVICE_OTEL_ENABLED", flag, "true", "Hand the agent its OpenTelemetry settings"),
  otelEndpoint: variable(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    httpUrl,
    "http://otel-collector:4317",
    "Collector endpoint",
  ),
  otelProtocol: variable(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    oneOf(["grpc", "http", "http/protobuf", "http/json"]),
    "grpc",
    "Protocol of the collector: grpc, http/protobuf or http/json; http means http/protobuf",
  ),
  otelLogPrompts: variable("SERVICE_OTEL_LOG_PROMPTS", flag, "false", "Log prompts in the agent's telemetry"),
  otelLogToolDetails: variable(
    "SERVICE_OTEL_LOG_TOOL_DETAILS",
    flag,
    "true",
    "Log tool details in the agent's telemetry",
  ),
};

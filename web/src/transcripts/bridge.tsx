import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { z } from "zod";
import { ClientError } from "../../../src/client/client-error.ts";
import type { TranscriptOperations } from "../../../src/contract/transcript.ts";
import { KeyForm } from "../parts/dialog.tsx";
import { Answer, Empty } from "../parts/states.tsx";
import { queries, storedBridgeKey, transport } from "../shell/service.ts";
import { createStore } from "../shell/store.ts";

/** A session, at an entry. */
export const addressOf = (id: string, position?: number): string =>
  `/transcripts/${encodeURIComponent(id)}${position === undefined ? "" : `?at=${position}`}`;

/** Whether the transcript service asks for a key. */
const needsBridgeKey = createStore(false);

const version = "2026-07-28";

export type BridgeInput<Name extends keyof TranscriptOperations> = z.input<
  TranscriptOperations[Name]["input"]
>;
export type BridgeOutput<Name extends keyof TranscriptOperations> = z.output<
  TranscriptOperations[Name]["output"]
>;

/**
 * Calls a tool of the transcript service: one request of MCP, without a session, which the service passes on.
 * @throws ClientError
 */
export const askBridge = async <Name extends keyof TranscriptOperations>(
  name: Name,
  input: BridgeInput<Name>,
  signal: AbortSignal,
  key = sessionStorage.getItem(storedBridgeKey),
): Promise<BridgeOutput<Name>> => {
  const fields = {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientInfo": { name: "svc page", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const params = { name, arguments: input, _meta: fields };
  const answer = transport().json({
    method: "POST",
    target: "/transcripts/mcp",
    headers: {
      "content-type": "application/json",
      "mcp-protocol-version": version,
      "mcp-method": "tools/call",
      "mcp-name": name,
      ...(key !== null && { "x-bridge-key": bytesOf(key) }),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
    signal,
  });
  try {
    return outputOf(await answer) as BridgeOutput<Name>;
  } catch (error) {
    if (error instanceof ClientError && error.code === "bridge_key_refused") needsBridgeKey.set(true);
    throw error;
  }
};

/** Tries a key and keeps it until the tab is closed. @throws ClientError 403 for one that is refused */
const tryBridgeKey = async (key: string): Promise<void> => {
  await askBridge("list_sessions", { limit: 1 }, AbortSignal.timeout(60_000), key);
  sessionStorage.setItem(storedBridgeKey, key);
  // Nothing that was read with another key is shown meanwhile.
  await queries.resetQueries({ queryKey: ["bridge"] });
  needsBridgeKey.set(false);
};

/** Header values are bytes: a key beyond ASCII is sent as UTF-8. */
const bytesOf = (key: string): string => String.fromCharCode(...new TextEncoder().encode(key));

type Reply = {
  result?: { isError?: boolean; structuredContent?: { success: boolean; error?: string; code?: string } };
  error?: { message: string };
};

const outputOf = (answer: Reply): object => {
  const { isError = false, structuredContent: output } = answer.result ?? {};
  if (output !== undefined && !isError) return output;
  const code = output?.code ?? "bridge_failed";
  throw new ClientError(output?.error ?? answer.error?.message ?? "The transcript service answered nothing", {
    status: code.endsWith("_not_found") ? 404 : 400,
    code,
  });
};

type AnswerProps<Data> = { query: UseQueryResult<Data>; children: (data: Data) => ReactNode };

/** What the transcript service has answered, or why it has not. */
export const BridgeAnswer = <Data,>({ query, children }: AnswerProps<Data>) => {
  if (needsBridgeKey.use())
    return (
      <div className="page-state">
        <h2>The transcript service asks for a key</h2>
        <KeyForm
          label="One of its keys"
          setting="BRIDGE_API_KEYS"
          refused="That key is not one of the transcript service's"
          use={tryBridgeKey}
        />
      </div>
    );
  // The service has no such path.
  if (query.error instanceof ClientError && query.error.code === "not_found")
    return (
      <Empty title="This service shows no transcripts">
        Start <code>bridge serve</code> beside it and name that in <code>SERVICE_BRIDGE_URL</code>: see{" "}
        <code>docs/use/transcripts.md</code>.
      </Empty>
    );
  return <Answer query={query}>{children}</Answer>;
};

import type { ReactNode } from "react";
import type { z } from "zod";
import { ClientError } from "../../../src/client/client-error.ts";
import type { TranscriptOperations } from "../../../src/contract/transcript.ts";
import { KeyForm } from "../parts/key-form.tsx";
import { Empty, Failed, Loading } from "../parts/states.tsx";
import { queries, storedBridgeKey, transport } from "../shell/service.ts";
import { createStore } from "../shell/store.ts";

/** Whether the transcript service asks for a key. */
const needsBridgeKey = createStore(false);

const version = "2026-07-28";

type Input<Name extends keyof TranscriptOperations> = z.input<TranscriptOperations[Name]["input"]>;
type Output<Name extends keyof TranscriptOperations> = z.output<TranscriptOperations[Name]["output"]>;

/**
 * Calls a tool of the transcript service: one request of MCP, without a session, which the service passes on.
 * @throws ClientError
 */
export const askBridge = async <Name extends keyof TranscriptOperations>(
  name: Name,
  input: Input<Name>,
  signal: AbortSignal,
  key = sessionStorage.getItem(storedBridgeKey),
): Promise<Output<Name>> => {
  const meta = {
    protocolVersion: version,
    clientInfo: { name: "svc page", version: "1" },
    clientCapabilities: {},
  };
  const fields = Object.entries(meta).map(([field, value]) => [`io.modelcontextprotocol/${field}`, value]);
  const params = { name, arguments: input, _meta: Object.fromEntries(fields) as object };
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
    return outputOf(await answer) as Output<Name>;
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

type Answer = {
  result?: { isError?: boolean; structuredContent?: { success: boolean; error?: string; code?: string } };
  error?: { message: string };
};

const outputOf = (answer: Answer): object => {
  const { isError = false, structuredContent: output } = answer.result ?? {};
  if (output !== undefined && !isError) return output;
  const code = output?.code ?? "bridge_failed";
  throw new ClientError(output?.error ?? answer.error?.message ?? "The transcript service answered nothing", {
    status: code.endsWith("_not_found") ? 404 : 400,
    code,
  });
};

type AnswerProps<Data> = {
  query: { data: Data | undefined; error: Error | null; refetch: () => unknown };
  children: (data: Data) => ReactNode;
};

/** What the transcript service has answered, or why it has not. */
export const BridgeAnswer = <Data,>({ query: { data, error, refetch }, children }: AnswerProps<Data>) => {
  if (needsBridgeKey.use()) return <AskKey />;
  if (data !== undefined) return children(data);
  if (error === null) return <Loading />;
  // The service has no such path.
  if (error instanceof ClientError && error.code === "not_found")
    return (
      <Empty title="This service shows no transcripts">
        Start <code>bridge serve</code> beside it and name that in <code>SERVICE_BRIDGE_URL</code>: see{" "}
        <code>docs/transcripts.md</code>.
      </Empty>
    );
  return <Failed error={error} retry={() => void refetch()} />;
};

const AskKey = () => (
  <div className="page-state">
    <h2>The transcript service asks for a key</h2>
    <KeyForm
      label="One of its keys"
      refused="That key is not one of the transcript service's"
      note={
        <>
          Kept in this tab until you close it. The operator has set it in <code>BRIDGE_API_KEYS</code>.
        </>
      }
      use={tryBridgeKey}
    />
  </div>
);

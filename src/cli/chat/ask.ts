import type { ChatAsk, ChatChunk } from "../../client/chat.ts";
import type { Client } from "../../client/client.ts";

type Asking = {
  client: Pick<Client, "chat" | "cancelChat">;
  question: Omit<ChatAsk, "signal">;
  /** Stops the turn at the service, then closes the connection. */
  stop: AbortSignal;
  onChunk: (chunk: ChatChunk) => void;
};

/** How long the service may take to stop a turn before the connection is closed all the same, ms. */
const cancelMs = 2000;

/**
 * One question and its answer. Resolves when the answer is complete, or has been stopped.
 * @throws ClientError when there is no answer, or not all of it
 */
export const ask = async ({ client, question, stop, onChunk }: Asking): Promise<"answered" | "stopped"> => {
  if (stop.aborted) return "stopped";
  const connection = new AbortController();
  let id: string | undefined;
  const cancel = async (): Promise<void> => {
    // Closing alone would leave it to the service's settings what becomes of the turn.
    const told =
      id === undefined ? undefined : client.cancelChat(id, { signal: AbortSignal.timeout(cancelMs) });
    await told?.catch(() => undefined);
    connection.abort();
  };
  const hear = (): void => void cancel();
  stop.addEventListener("abort", hear, { once: true });
  try {
    for await (const chunk of client.chat({ ...question, signal: connection.signal })) {
      id ??= chunk.id;
      onChunk(chunk);
    }
    return "answered";
  } catch (error) {
    if (stop.aborted) return "stopped";
    throw error;
  } finally {
    stop.removeEventListener("abort", hear);
  }
};

import type { Block } from "./answer.ts";

export type Conversation = {
  /** `X-Conversation-Id`. */
  id: string;
  title: string;
  model: string;
  /** When it was last used, ms since the epoch. */
  at: number;
};

/** A question and its answer. */
export type Turn = {
  conversation: string;
  /** When it was asked, ms since the epoch: with the conversation its key. */
  at: number;
  /** `X-Request-Id`, the same when it is tried again: an answer that goes on is joined. */
  id: string;
  question: string;
  model: string;
  /** Whether text comes while the model writes it. */
  isLive: boolean;
  blocks: readonly Block[];
  /** `cut`: the connection ended before the answer did. */
  state: "running" | "done" | "stopped" | "failed" | "cut";
  error: string | null;
  tokens: { read: number; written: number } | null;
  /** When it was last tried, ms since the epoch; how long that took, ms. */
  began: number;
  ms: number;
};

/* The service keeps what the agent remembers, not what was shown: that is kept in this browser. */

let opened: Promise<IDBDatabase> | undefined;

const open = (): Promise<IDBDatabase> => {
  const request = indexedDB.open("svc.chat", 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore("conversations", { keyPath: "id" });
    request.result.createObjectStore("turns", { keyPath: ["conversation", "at"] });
  };
  return answerOf(request);
};

const answerOf = <Value>(request: IDBRequest<Value>): Promise<Value> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("The browser keeps no data for this page"));
  });

const act = async <Value>(
  kind: "conversations" | "turns",
  run: (kept: IDBObjectStore) => IDBRequest<Value>,
): Promise<Value> => {
  const database = await (opened ??= open());
  return answerOf(run(database.transaction(kind, "readwrite").objectStore(kind)));
};

const turnsOf = (id: string): IDBKeyRange => IDBKeyRange.bound([id], [id, []]);

/** Newest first. */
export const readConversations = async (): Promise<Conversation[]> => {
  const all = await act<Conversation[]>("conversations", (kept) => kept.getAll());
  return all.toSorted((one, other) => other.at - one.at);
};

/** Oldest first. */
export const readTurns = (id: string): Promise<Turn[]> => act("turns", (kept) => kept.getAll(turnsOf(id)));

export const keepConversation = (conversation: Conversation): Promise<unknown> =>
  act("conversations", (kept) => kept.put(conversation));

export const keepTurn = (turn: Turn): Promise<unknown> => act("turns", (kept) => kept.put(turn));

export const removeConversation = (id: string): Promise<unknown> =>
  Promise.all([
    act("conversations", (kept) => kept.delete(id)),
    act("turns", (kept) => kept.delete(turnsOf(id))),
  ]);

/** Of everyone who has used this browser. */
export const removeConversations = (): Promise<unknown> =>
  Promise.all([act("conversations", (kept) => kept.clear()), act("turns", (kept) => kept.clear())]);

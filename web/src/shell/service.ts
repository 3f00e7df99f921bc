import { QueryCache, QueryClient, MutationCache } from "@tanstack/react-query";
import { ClientError } from "../../../src/client/client-error.ts";
import { createClient, type Client } from "../../../src/client/client.ts";
import { createTransport, type Transport } from "../../../src/client/transport.ts";
import { removeConversations } from "../chat/history.ts";
import { createStore } from "./store.ts";

const storedKey = "svc.key";

/** Whether the service answers. `outdated`: it does, and serves a newer version of this page. */
export const connection = createStore<"online" | "offline" | "outdated">("online");

/** Whether changes of jobs do not come, although the service answers. */
export const isBehind = createStore(false);

/** Whether the service asks for a key. */
export const needsKey = createStore(false);

/** A proxy that cannot reach the service answers in its place. */
const isAbsent = ({ status, headers }: Response): boolean =>
  status >= 502 && status <= 504 && headers.get("content-type")?.includes("json") !== true;

/** Longest wait for an answer that is no stream, ms: to a question, and to a request that takes its time. */
const patience = { GET: 20_000, other: 120_000 };

/** What takes as long as it takes. */
const streams = ["text/event-stream", "application/octet-stream"];

const watchedFetch: typeof fetch = async (input, init) => {
  const isStream = streams.includes(new Headers(init?.headers).get("accept") ?? "");
  const limit = AbortSignal.timeout(init?.method === "GET" ? patience.GET : patience.other);
  const signals = [init?.signal ?? [], isStream ? [] : limit].flat();
  try {
    const response = await fetch(input, { ...init, signal: AbortSignal.any(signals) });
    if (isAbsent(response)) lost();
    return response;
  } catch (error) {
    if (!signals.some(({ aborted }) => aborted)) lost();
    throw error;
  }
};

const optionsWith = (apiKey: string | undefined) => ({
  baseUrl: location.origin,
  apiKey,
  fetch: watchedFetch,
});

const clientWith = (apiKey: string | undefined): Client => createClient(optionsWith(apiKey));

let current = clientWith(sessionStorage.getItem(storedKey) ?? undefined);

/** The service, with the key that the user has entered. */
export const client = (): Client => current;

/** For what is no operation of the service. */
export const transport = (): Transport =>
  createTransport(optionsWith(sessionStorage.getItem(storedKey) ?? undefined));

/** The key of the transcript service beside, in session storage. */
export const storedBridgeKey = "svc.bridge-key";

export const hasKey = (): boolean =>
  [storedKey, storedBridgeKey].some((name) => sessionStorage.getItem(name) !== null);

/** Tries a key and keeps it until the tab is closed. @throws ClientError 401 for one that is not the service's */
export const signIn = async (key: string): Promise<void> => {
  const next = clientWith(key);
  await next.list_jobs({ limit: 1 });
  sessionStorage.setItem(storedKey, key);
  current = next;
  needsKey.set(false);
  await queries.resetQueries();
};

export const signOut = async (): Promise<void> => {
  if (!confirm("Forget the key, and remove the conversations that this browser keeps?")) return;
  for (const name of [storedKey, storedBridgeKey]) sessionStorage.removeItem(name);
  await removeConversations().finally(() => location.reload());
};

/** An id that nobody else has. Not `randomUUID`, which browsers have on HTTPS and on loopback only. */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-");

const onError = (error: Error): void => {
  if (error instanceof ClientError && error.status === 401) needsKey.set(true);
};

/** Who waited for the whole time is not made to wait again. */
const isFinal = (error: Error): boolean =>
  error instanceof ClientError && ((error.status >= 400 && error.status < 500) || error.code === "timeout");

/** What the page has read; a failure that may pass is tried again. */
export const queries = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (failures, error) => failures < 2 && !isFinal(error),
      // The connection is judged by what the service answers; loopback works without a network.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

const longestPause = 5_000;

let isAsking = false;

/** Something failed: asks whether the service is away, until it answers again; then reads everything anew. */
export const lost = (): void => {
  if (isAsking) return;
  isAsking = true;
  void ask(500);
};

const ask = async (pause: number): Promise<void> => {
  const response = await fetch("/health", { cache: "no-store", signal: AbortSignal.timeout(5000) }).catch(
    () => null,
  );
  if (response === null || isAbsent(response)) {
    connection.set("offline");
    setTimeout(() => void ask(Math.min(longestPause, pause * 2)), pause);
    return;
  }
  const wasAway = connection.get() === "offline";
  connection.set((await isOutdated()) ? "outdated" : "online");
  isAsking = false;
  if (wasAway) await queries.invalidateQueries();
};

/** Whether the service now serves another page than this: names of its files change with their contents. */
const isOutdated = async (): Promise<boolean> => {
  const script = document.querySelector<HTMLScriptElement>("script[type=module]")?.src ?? "";
  const response = await fetch("/ui/", { cache: "no-store" }).catch(() => null);
  return response?.ok === true && !(await response.text()).includes(new URL(script).pathname);
};

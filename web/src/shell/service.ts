import { QueryCache, QueryClient, MutationCache } from "@tanstack/react-query";
import { ClientError } from "../../../src/client/client-error.ts";
import { createClient, type Client } from "../../../src/client/client.ts";
import { createStore } from "./store.ts";

const storedKey = "svc.key";

/** Whether the service answers. `outdated`: it does, and serves a newer version of this page. */
export const connection = createStore<"online" | "offline" | "outdated">("online");

/** Whether the service asks for a key. */
export const needsKey = createStore(false);

/** A proxy that cannot reach the service answers in its place. */
const isAbsent = ({ status, headers }: Response): boolean =>
  status >= 502 && status <= 504 && headers.get("content-type")?.includes("json") !== true;

/** Longest wait for an answer that is no stream, ms. */
const patience = 60_000;

const watchedFetch: typeof fetch = async (input, init) => {
  const isStream = new Headers(init?.headers).get("accept") === "text/event-stream";
  const signals = [init?.signal ?? [], isStream ? [] : AbortSignal.timeout(patience)].flat();
  try {
    const response = await fetch(input, { ...init, signal: AbortSignal.any(signals) });
    if (isAbsent(response)) lost();
    return response;
  } catch (error) {
    if (init?.signal?.aborted !== true) lost();
    throw error;
  }
};

const clientWith = (apiKey: string | undefined): Client =>
  createClient({ baseUrl: location.origin, apiKey, fetch: watchedFetch });

let current = clientWith(sessionStorage.getItem(storedKey) ?? undefined);

/** The service, with the key that the user has entered. */
export const client = (): Client => current;

export const hasKey = (): boolean => sessionStorage.getItem(storedKey) !== null;

/** Tries a key and keeps it until the tab is closed. @throws ClientError 401 for one that is not the service's */
export const signIn = async (key: string): Promise<void> => {
  const next = clientWith(key);
  await next.list_jobs({ limit: 1 });
  sessionStorage.setItem(storedKey, key);
  current = next;
  needsKey.set(false);
  await queries.resetQueries();
};

export const signOut = (): void => {
  sessionStorage.removeItem(storedKey);
  location.reload();
};

const onError = (error: Error): void => {
  if (error instanceof ClientError && error.status === 401) needsKey.set(true);
};

const isRefusal = (error: Error): boolean =>
  error instanceof ClientError && error.status >= 400 && error.status < 500;

/** What the page has read; a failure that may pass is tried again. */
export const queries = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (failures, error) => failures < 2 && !isRefusal(error),
      // The connection is judged by what the service answers; loopback works without a network.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

const longestPause = 5_000;

/** Asks until the service answers again, then reads everything anew. */
export const lost = (): void => {
  if (connection.get() === "offline") return;
  connection.set("offline");
  const ask = async (pause: number): Promise<void> => {
    const response = await fetch("/health", { cache: "no-store", signal: AbortSignal.timeout(5000) }).catch(
      () => null,
    );
    if (response === null || isAbsent(response)) {
      setTimeout(() => void ask(Math.min(longestPause, pause * 2)), pause);
      return;
    }
    connection.set((await isOutdated()) ? "outdated" : "online");
    await queries.invalidateQueries();
  };
  setTimeout(() => void ask(1000), 500);
};

/** Whether the service now serves another page than this: names of its files change with their contents. */
const isOutdated = async (): Promise<boolean> => {
  const script = document.querySelector<HTMLScriptElement>("script[type=module]")?.src ?? "";
  const response = await fetch("/ui/", { cache: "no-store" }).catch(() => null);
  return response?.ok === true && !(await response.text()).includes(new URL(script).pathname);
};

import pLimit from "p-limit";
import { createClient } from "../client/client.ts";
import type { Instance } from "../contract/instance.ts";
import { listedRemotes, messageOf, storeRemotes } from "./addressed.ts";
import type { Fleet, Reached, Remote } from "./fleet.ts";
import { createKubectl, sign, SyncResults, type Pod } from "./kubectl.ts";
import { askOverview, remoteOf, selfOf } from "./overview.ts";

type Options = {
  /** URLs of instances: no other way is tried when there are any. */
  remotes: readonly string[];
  /** The service that is asked when kubectl finds no instance. */
  baseUrl: string;
  apiKey: string | undefined;
  env: NodeJS.ProcessEnv;
  /** How long kubectl, and an instance, may take to answer, seconds. */
  patience?: number;
};

/** The fleet of the list, else of kubectl's current context, else of the store of the service at `baseUrl`. */
export const createFleet = ({ remotes: urls, baseUrl, apiKey, env, patience = 10 }: Options): Fleet => {
  const kubectl = createKubectl({ env, patience });
  const known = new Map<string, Pod>();

  const podOf = ({ name, source }: Remote): Pod => {
    const pod = source === "kubernetes" ? known.get(name) : undefined;
    if (pod !== undefined) return pod;
    throw new Error(`${name} is known only by its address: log in to its machine for this`);
  };

  const kubernetesRemotes = async (signal: AbortSignal): Promise<Remote[]> => {
    const pods = await kubectl.pods(signal);
    if (pods.length === 0)
      throw new Error(`kubectl finds no pods with the ${sign} in the namespace of its context`);
    const seen = new Map<string, Instance | null>();
    const waiting = new Map<string, number>();
    const faults = new Map<string, string>();
    const ask = async (pod: Pod): Promise<void> => {
      try {
        await using way = await kubectl.forward(pod, signal);
        const overview = await askOverview(way.url, { apiKey, patience, signal });
        for (const instance of overview.instances) {
          seen.set(instance.name, instance);
          waiting.set(instance.name, overview.queue.waiting);
        }
        waiting.set(pod.name, overview.queue.waiting);
        seen.set(pod.name, selfOf(overview) ?? seen.get(pod.name) ?? null);
      } catch (error) {
        signal.throwIfAborted();
        faults.set(pod.name, messageOf(error));
      }
    };
    const running = pods.filter(({ phase }) => phase === "Running");
    await Promise.all(running.slice(0, 1).map(ask));
    // Those that share the first one's store have been described by it.
    const others = running.filter(({ name }) => !seen.has(name) && !faults.has(name));
    await pLimit(8).map(others, ask);
    known.clear();
    return pods.map((pod): Remote => {
      const { name: podName, phase } = pod;
      const instance = seen.get(podName) ?? null;
      const name = instance === null || known.has(instance.name) ? podName : instance.name;
      known.set(name, pod);
      const stopped =
        phase === "Running" ? null : `The pod is ${phase}: kubectl describe pod ${podName} says why`;
      const fault = stopped ?? (seen.has(podName) ? null : (faults.get(podName) ?? null));
      const shared = waiting.get(podName) ?? null;
      return remoteOf({ name, source: "kubernetes", url: null, instance, waiting: shared, fault });
    });
  };

  const list: Fleet["list"] = async (signal) => {
    const how = { apiKey, patience, signal };
    if (urls.length > 0) return { remotes: await listedRemotes(urls, how), faults: [] };
    const faults: string[] = [];
    for (const way of [kubernetesRemotes, () => storeRemotes(baseUrl, how)]) {
      try {
        return { remotes: (await way(signal)).toSorted((a, b) => (a.name < b.name ? -1 : 1)), faults };
      } catch (error) {
        signal.throwIfAborted();
        faults.push(messageOf(error));
      }
    }
    return { remotes: [], faults };
  };

  const reach = async (remote: Remote, signal: AbortSignal): Promise<Reached> => {
    if (remote.source === "kubernetes") {
      const way = await kubectl.forward(podOf(remote), signal);
      return { ...way, client: createClient({ baseUrl: way.url, apiKey }) };
    }
    if (remote.url === null) throw new Error(remote.fault ?? `${remote.name} has no address`);
    const client = createClient({ baseUrl: remote.url, apiKey });
    return { client, url: remote.url, [Symbol.asyncDispose]: async () => undefined };
  };

  return {
    list,
    reach,
    sync: async (remote, signal) => {
      if (remote.source === "kubernetes") return await kubectl.sync(podOf(remote), signal);
      await using reached = await reach(remote, signal);
      return SyncResults.parse(await reached.client.sync_companions({}, { signal }));
    },
    shell: (remote) => kubectl.shell(podOf(remote)),
    logs: (remote) => kubectl.logs(podOf(remote)),
  };
};

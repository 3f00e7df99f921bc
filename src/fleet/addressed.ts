import { isLoopbackHost } from "../config/formats.ts";
import type { Instance } from "../contract/instance.ts";
import type { Remote } from "./fleet.ts";
import { askOverview, remoteOf, selfOf, type Way } from "./overview.ts";

/** The instances at these URLs. One that does not answer is listed with its fault. */
export const listedRemotes = async (urls: readonly string[], way: Way): Promise<Remote[]> => {
  const unique = new Map(urls.map((url) => [nameOf(url), url]));
  const asked = [...unique].map(async ([name, url]): Promise<Remote> => {
    const remote = { name, source: "list" as const, url };
    try {
      const overview = await askOverview(url, way);
      return remoteOf({ ...remote, instance: selfOf(overview), waiting: overview.queue.waiting });
    } catch (error) {
      way.signal.throwIfAborted();
      return remoteOf({ ...remote, instance: null, waiting: null, fault: messageOf(error) });
    }
  });
  return named(await Promise.all(asked));
};

/** Each by its `pod_name`; one that did not say it, and others of the same name, by host and port. */
const named = (remotes: Remote[]): Remote[] => {
  const names = remotes.map(({ name, instance }) => instance?.name ?? name);
  return remotes.map((remote, at) => {
    const name = names[at] ?? remote.name;
    return names.indexOf(name) === at ? { ...remote, name } : remote;
  });
};

/** The instance at `baseUrl` and those that share its store, each by the address that it publishes. */
export const storeRemotes = async (baseUrl: string, way: Way): Promise<Remote[]> => {
  const overview = await askOverview(baseUrl, way);
  const self = selfOf(overview);
  const shared = { source: "store" as const, waiting: overview.queue.waiting };
  const unnamed = remoteOf({ ...shared, name: nameOf(baseUrl), url: baseUrl, instance: null });
  const all = overview.instances.map(async (instance): Promise<Remote> => {
    if (instance === self) return remoteOf({ ...shared, name: instance.name, url: baseUrl, instance });
    const { name, address: url } = instance;
    return remoteOf({ ...shared, name, url, instance, fault: await faultOf(instance, baseUrl, way) });
  });
  return [...(self === null ? [unnamed] : []), ...(await Promise.all(all))];
};

/** Why the instance cannot be reached; null: it can. */
const faultOf = async ({ name, address }: Instance, baseUrl: string, way: Way): Promise<string | null> => {
  if (address === null)
    return `${name} publishes no address: set SERVICE_ADDRESS on it to the URL at which others reach it`;
  if (isLoopback(address) && !isLoopback(baseUrl))
    return `${address} is an address on the machine of ${name} only: set SERVICE_ADDRESS on it to one that others reach`;
  try {
    const { answered_by: found } = await askOverview(address, way);
    if (found === name) return null;
    return `${found} answers at ${address}, not ${name}: set SERVICE_ADDRESS on ${name} to an address of its own`;
  } catch (error) {
    way.signal.throwIfAborted();
    return messageOf(error);
  }
};

const isLoopback = (url: string): boolean => isLoopbackHost(new URL(url).hostname);

/** Host and port, and the path below which a proxy has the service. */
const nameOf = (url: string): string => url.replace(/^https?:\/\//, "").replace(/\/+$/, "");

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

import { EventEmitter, once } from "node:events";
import type { ClientRequest } from "node:http";
import type { Socket } from "node:net";
import { HttpsProxyAgent } from "https-proxy-agent";
import { getProxyForUrl } from "proxy-from-env";

/** The proxy that this process is to ask for a URL: HTTPS_PROXY, HTTP_PROXY, NO_PROXY. Null: none. */
const proxyFor = ({ href, hostname }: URL): string | null =>
  /^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname) ? null : getProxyForUrl(href) || null;

export type ProxyAgent = HttpsProxyAgent<string>;

/** Agents that ask the proxy of a URL for connections, and keep them; null: it has none. */
export const proxyAgents = (proxyOf: (url: URL) => string | null = proxyFor) => {
  const made = new Map<string, ProxyAgent>();
  return {
    of: (url: URL): ProxyAgent | null => {
      const proxy = proxyOf(url);
      if (proxy === null) return null;
      const agent = made.get(proxy) ?? new HttpsProxyAgent(proxy, { keepAlive: true });
      made.set(proxy, agent);
      return agent;
    },
    destroy: (): void => made.forEach((agent) => agent.destroy()),
  };
};

/** A connection through a proxy. @throws Error when the proxy does not make it within the time */
export const connectThrough = async (
  agent: ProxyAgent,
  { name: host, port }: { name: string; port: number },
  ms: number,
): Promise<Socket> => {
  // Takes the place of a request, which the agent tells what the proxy answered.
  const asked = new EventEmitter();
  let status = 0;
  asked.once("proxyConnect", ({ statusCode }: { statusCode: number }) => (status = statusCode));
  const late = AbortSignal.timeout(ms);
  const connecting = agent.connect(asked as ClientRequest, { host, port, secureEndpoint: false });
  const given = connecting.then((socket) => {
    if (status === 200 && !late.aborted) return socket as Socket;
    socket.destroy();
    throw new Error(`the proxy of this machine answers ${status}`);
  });
  const over = once(late, "abort").then(() =>
    Promise.reject(new Error("the proxy of this machine does not answer")),
  );
  return await Promise.race([given, over]);
};

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createListener, type RecordedRequest, type Script } from "./listener.ts";

export type FakeModel = AsyncDisposable & {
  /** What ANTHROPIC_BASE_URL takes. */
  url: string;
  /** The newest 100 requests. */
  requests: RecordedRequest[];
  /**
   * Answers by a function until the result is disposed of; null hands the request on, to older scripts and then to the
   * scenario that the prompt names.
   */
  script: (script: Script) => Disposable;
  close: () => Promise<void>;
};

type Options = {
  port?: number;
  /** Requests must carry it, as bearer or as x-api-key; default: no authentication. */
  token?: string;
  /** Scenario of a prompt that names none. */
  defaultScenario?: string;
};

/** Starts a scripted stand-in of the Anthropic Messages API on loopback. */
export const startFakeModel = async ({
  port = 0,
  token,
  defaultScenario = "auto",
}: Options = {}): Promise<FakeModel> => {
  const requests: RecordedRequest[] = [];
  const scripts: Script[] = [];
  const closing = new AbortController();
  const listener = createListener({ requests, scripts, token, defaultScenario, signal: closing.signal });
  const server = createServer(listener);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", resolve);
  });
  const close = () =>
    new Promise<void>((resolve) => {
      closing.abort();
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    script: (script) => {
      scripts.unshift(script);
      return {
        [Symbol.dispose]: () =>
          void scripts.splice(scripts.indexOf(script), scripts.includes(script) ? 1 : 0),
      };
    },
    close,
    [Symbol.asyncDispose]: close,
  };
};

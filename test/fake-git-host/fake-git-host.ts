import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addApp, type App } from "./apps.ts";
import { createCertificate } from "./certificate.ts";
import { createListener } from "./listener.ts";
import { createRefusals, type Refusal } from "./refusals.ts";
import { createRequestLog, type RecordedRequest } from "./request-log.ts";
import { addRepository, type NewRepository } from "./repositories.ts";
import {
  addOwner,
  addToken,
  type Owner,
  type PullRequest,
  type Repository,
  type State,
  type Token,
} from "./state.ts";

export type FakeGitHost = AsyncDisposable & {
  /** `localhost:PORT`: what GIT_HOST, GH_HOST and `gh --repo HOST/owner/name` take. */
  host: string;
  origin: string;
  apiUrl: string;
  certificate: string;
  caFile: string;
  /** Makes git, gh and Node of a child process trust the certificate. */
  environment: { SSL_CERT_FILE: string; GIT_SSL_CAINFO: string; NODE_EXTRA_CA_CERTS: string };
  /** Directory of the bare repositories and the certificate, removed by `close`. */
  root: string;
  requests: RecordedRequest[];
  repositories: Map<string, Repository>;
  pullRequests: PullRequest[];
  tokens: Map<string, Token>;
  createToken: (token?: Partial<Token>) => string;
  createOwner: (login: string, kind: Owner["kind"]) => Owner;
  createApp: (app?: Parameters<typeof addApp>[1]) => App;
  createRepository: (owner: string, name: string, options?: NewRepository) => Promise<Repository>;
  refuse: (refusal: Refusal) => Disposable;
  close: () => Promise<void>;
};

/** Starts a stand-in of GitHub (Enterprise) on a free loopback port, over https. */
export const startFakeGitHost = async ({ port = 0 }: { port?: number } = {}): Promise<FakeGitHost> => {
  const root = await mkdtemp(join(tmpdir(), "fake-git-host-"));
  const { key, certificate } = await createCertificate();
  const caFile = join(root, "ca.pem");
  await writeFile(caFile, certificate);
  const secure = createHttpsServer({ key, cert: certificate });
  const host = `localhost:${await listen(secure, port)}`;
  const state: State = {
    host,
    origin: `https://${host}`,
    root,
    owners: new Map(),
    repositories: new Map(),
    pullRequests: [],
    tokens: new Map(),
    apps: new Map(),
    refusals: createRefusals(),
  };
  const log = createRequestLog();
  const listener = createListener(state, log);
  secure.on("request", listener);

  const close = async () => {
    await stop(secure);
    await rm(root, { recursive: true, force: true, maxRetries: 5 });
  };
  return {
    ...state,
    apiUrl: `${state.origin}/api/v3`,
    certificate,
    caFile,
    environment: { SSL_CERT_FILE: caFile, GIT_SSL_CAINFO: caFile, NODE_EXTRA_CA_CERTS: caFile },
    requests: log.requests,
    createToken: (token) => addToken(state, token).value,
    createOwner: (login, kind) => addOwner(state, login, kind),
    createApp: (app) => addApp(state, app),
    createRepository: (owner, name, options) => addRepository(state, owner, name, options),
    refuse: (refusal) => state.refusals.add(refusal),
    close,
    [Symbol.asyncDispose]: close,
  };
};

/** Resolves to the port. */
const listen = (server: Server, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server
      .once("error", reject)
      .listen(port, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });

const stop = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });

import { spawn } from "node:child_process";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { authenticate } from "./authentication.ts";
import { gitEnvironment } from "./git.ts";
import { HostError } from "./host-error.ts";
import { refusePushVariable } from "./repositories.ts";
import { fullName, may, type Repository, type State } from "./state.ts";

export type GitRequest = { owner: string; name: string; rest: string; writes: boolean };

/** Recognises a request of git's smart HTTP protocol. */
export const parseGitRequest = (url: URL): GitRequest | null => {
  const match = /^\/([\w.-]+)\/([\w.-]+?)(?:\.git)?(\/(?:info\/refs|git-upload-pack|git-receive-pack))$/.exec(
    url.pathname,
  );
  const [, owner, name, rest] = match ?? [];
  if (!owner || !name || !rest) return null;
  return {
    owner,
    name,
    rest,
    writes: rest.endsWith("git-receive-pack") || url.searchParams.get("service") === "git-receive-pack",
  };
};

/** Answers it by the real `git http-backend`. `hookMessage` makes the pre-receive hook refuse. @throws HostError 401, 403, 404 */
export const serveGit = async (
  state: State,
  { request, response, url, git, hookMessage }: GitExchange,
): Promise<void> => {
  const token = authenticate(state, request.headers.authorization);
  const repository = state.repositories.get(fullName(git.owner, git.name));
  // As the real host does: without authentication a client cannot learn whether a repository exists.
  if (!token && (!repository || repository.private || git.writes))
    throw new HostError(401, "Authentication required");
  if (!repository || !may(token, "read", repository)) throw new HostError(404, "Repository not found.");
  if (git.writes && !may(token, "write", repository)) {
    throw new HostError(
      403,
      `Permission to ${repository.owner}/${repository.name}.git denied to ${token?.login ?? "nobody"}.`,
    );
  }
  const backend = spawn("git", ["http-backend"], {
    stdio: ["pipe", "pipe", "ignore"],
    env: {
      ...gitEnvironment(),
      ...cgiVariables({ request, url, repository, rest: git.rest, root: join(state.root, "repositories") }),
      ...(token ? { REMOTE_USER: token.login } : {}),
      ...(hookMessage === null ? {} : { [refusePushVariable]: hookMessage }),
    },
  });
  const ended = new Promise<void>((resolve, reject) =>
    backend.once("error", reject).once("close", () => resolve()),
  );
  request.on("error", () => backend.kill()).pipe(backend.stdin.on("error", () => request.resume()));
  response.once("close", () => backend.kill());
  await Promise.all([pipeline(backend.stdout, takeHead(response), response), ended]);
};

type GitExchange = {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
  git: GitRequest;
  hookMessage: string | null;
};

type CgiRequest = { request: IncomingMessage; url: URL; repository: Repository; rest: string; root: string };

const cgiVariables = ({ request, url, repository, rest, root }: CgiRequest): NodeJS.ProcessEnv => ({
  GIT_PROJECT_ROOT: root,
  GIT_HTTP_EXPORT_ALL: "1",
  PATH_INFO: `/${fullName(repository.owner, repository.name)}.git${rest}`,
  REQUEST_METHOD: request.method,
  QUERY_STRING: url.search.slice(1),
  CONTENT_TYPE: request.headers["content-type"] ?? "",
  REMOTE_ADDR: "127.0.0.1",
  ...(request.headers["content-length"] ? { CONTENT_LENGTH: request.headers["content-length"] } : {}),
  ...(request.headers["content-encoding"]
    ? { HTTP_CONTENT_ENCODING: request.headers["content-encoding"] }
    : {}),
  ...(request.headers["git-protocol"] ? { GIT_PROTOCOL: String(request.headers["git-protocol"]) } : {}),
});

/** Takes the head of the CGI answer off as status and headers of the response, and lets the rest flow. */
const takeHead = (response: ServerResponse): Transform => {
  let head: Buffer | null = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (head === null) return done(null, chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return done();
      const rest = head.subarray(end + 4);
      applyHead(response, head.subarray(0, end).toString());
      head = null;
      return done(null, rest);
    },
    flush: (done) => done(head === null ? null : new HostError(500, "git http-backend gave no answer")),
  });
};

const applyHead = (response: ServerResponse, head: string): void => {
  for (const line of head.split("\r\n")) {
    const [name = "", value = ""] = line.split(": ");
    if (name === "Status") response.statusCode = Number.parseInt(value, 10);
    else response.setHeader(name, value);
  }
};

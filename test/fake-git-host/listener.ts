import type { IncomingMessage, ServerResponse } from "node:http";
import { ZodError } from "zod";
import { authenticate } from "./authentication.ts";
import { type GitRequest, parseGitRequest, serveGit } from "./git-http.ts";
import { answerGraphql, graphqlError } from "./graphql.ts";
import { HostError } from "./host-error.ts";
import { type RefusedAction, refusalError } from "./refusals.ts";
import type { RequestLog } from "./request-log.ts";
import { restApi } from "./rest.ts";
import type { State } from "./state.ts";

type Exchange = { request: IncomingMessage; response: ServerResponse; url: URL };

/** Answers every request of the stand-in, on both its ports: git's protocol, GraphQL, REST. */
export const createListener = (state: State, log: RequestLog) => {
  const rest = restApi(state);

  const answerGit = async (exchange: Exchange, git: GitRequest): Promise<void> => {
    log.add(exchange.request, "");
    const refusal = state.refusals.take(git.writes ? "push" : "git_read", git.rest === "/git-receive-pack");
    if (refusal?.how === "hook")
      return await serveGit(state, { ...exchange, git, hookMessage: refusal.message });
    if (!meetsRefusal(exchange, refusal)) await serveGit(state, { ...exchange, git, hookMessage: null });
  };

  const answerApi = async (exchange: Exchange): Promise<void> => {
    const { request, response, url } = exchange;
    const body = await readBody(request);
    log.add(request, body);
    const refusal = state.refusals.take(apiAction(request.method, url.pathname, body), false);
    if (refusal?.how === "unheard") {
      await rest.fetch(toFetchRequest(request, url, body));
      return void request.socket.destroy();
    }
    if (refusal?.how === "half") {
      const answer = await rest.fetch(toFetchRequest(request, url, body));
      response.writeHead(answer.status, { ...json, "content-length": 100_000 });
      return void response.write((await answer.text()).slice(0, 20), () => request.socket.end());
    }
    if (refusal?.how === "page") return void response.writeHead(200).end("<html>Sign in</html>");
    if (meetsRefusal(exchange, refusal)) return;
    if (url.pathname === "/api/graphql") {
      const token = authenticate(state, request.headers.authorization);
      return sendJson(response, 200, await answerGraphql(state, token, JSON.parse(body)));
    }
    const answer = await rest.fetch(toFetchRequest(request, url, body));
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  };

  return (request: IncomingMessage, response: ServerResponse): void => {
    const exchange = { request, response, url: new URL(request.url ?? "/", state.origin) };
    const git = parseGitRequest(exchange.url);
    (git ? answerGit(exchange, git) : answerApi(exchange)).catch((error: unknown) =>
      sendError(exchange, asHostError(error)),
    );
  };
};

/** True when the exchange is over, or for ever open, because of the refusal. @throws HostError for a refusal by status */
const meetsRefusal = ({ request }: Exchange, refusal: ReturnType<State["refusals"]["take"]>): boolean => {
  if (refusal === null) return false;
  if (refusal.how === "reset") request.socket.destroy();
  else if (refusal.how !== "timeout") throw refusalError(refusal);
  return true;
};

const json = { "content-type": "application/json; charset=utf-8" };

const sendJson = (response: ServerResponse, status: number, body: unknown): void =>
  void response.writeHead(status, json).end(JSON.stringify(body));

const sendError = ({ response, url }: Exchange, error: HostError): void => {
  if (response.headersSent) return void response.destroy();
  if (error.retryAfter !== undefined) response.setHeader("Retry-After", error.retryAfter);
  if (url.pathname.startsWith("/api/")) {
    const typed = url.pathname === "/api/graphql" ? graphqlError(error) : null;
    return sendJson(response, typed ? 200 : error.status, typed ?? { message: error.message });
  }
  if (error.status === 401) response.setHeader("WWW-Authenticate", 'Basic realm="GitHub"');
  // Git shows a plain text body to its user as "remote: …".
  response.writeHead(error.status, { "content-type": "text/plain; charset=utf-8" }).end(`${error.message}\n`);
};

const apiAction = (method: string | undefined, path: string, body: string): RefusedAction => {
  if (method === "PATCH") return "change";
  if (method !== "POST") return "api";
  if (path.endsWith("/pulls") || body.includes("createPullRequest(")) return "pull_request";
  if (path.endsWith("/repos") || body.includes("createRepository(")) return "repository";
  return path.endsWith("/access_tokens") ? "token" : "api";
};

const asHostError = (error: unknown): HostError => {
  if (error instanceof HostError) return error;
  if (error instanceof ZodError || error instanceof SyntaxError)
    return new HostError(422, `Validation Failed: ${error.message}`);
  return new HostError(500, error instanceof Error ? error.message : String(error));
};

const toFetchRequest = ({ method = "GET", headers }: IncomingMessage, url: URL, body: string): Request =>
  new Request(url, {
    method,
    headers: Object.entries(headers).flatMap(([name, value]) =>
      typeof value === "string" ? [[name, value]] : [],
    ) as [string, string][],
    ...(method === "GET" || method === "HEAD" ? {} : { body }),
  });

const maximumBody = 4 * 1024 * 1024;

const readBody = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > maximumBody) throw new HostError(413, "Request body is too large");
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString();
};

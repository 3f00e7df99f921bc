import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { loginToken } from "../../agents/claude/place.ts";
import { modelRoute } from "../../agents/claude/routes.ts";
import { modelCredential, modelProblem } from "../../config/model-credential.ts";
import type { Check } from "../../contract/instance.ts";
import { proxyAgents } from "../../lib/upstream.ts";
import { Warning, type Diagnosis } from "./diagnosis.ts";
import { tryTurn } from "./turn.ts";

/** @throws Error when agents cannot use the model, Warning when that is not known */
export const checkModel = async (request: Diagnosis, limitMs = 10_000): Promise<string> => {
  const { settings, offline } = request;
  const problem = modelProblem(settings);
  if (problem !== null) throw new Error(problem);
  const credential = modelCredential(settings);
  if (!offline && credential?.startsWith("CLAUDE_CODE_USE_") !== true)
    return await askAddress(request, limitMs);
  if (credential !== null) return `${credential} is set; the first job shows whether the model accepts it`;
  throw new Warning("No model credential is known here; svc run shows whether agents need one");
};

export const askModel = async (request: Diagnosis): Promise<string> => {
  const { model, text, costUsd, seconds } = await tryTurn({ ...request, limitSeconds: 60 });
  const cost = costUsd === null ? "" : ` for ${costUsd.toFixed(4)} USD`;
  return `${model} answers in ${seconds.toFixed(1)} s${cost}: ${text.slice(0, 200)}`;
};

/**
 * Sends the model's address one request that costs nothing, as the door of a sandbox would: for the list of models; with a
 * subscription's token an empty count of tokens, which gets 400. Its body is not read, no redirect followed.
 */
const askAddress = async ({ settings, signal }: Diagnosis, limitMs: number): Promise<string> => {
  const agentOauthToken = settings.agentOauthToken ?? (await loginToken(settings));
  const isToken = agentOauthToken !== null;
  const { target: url, headers } = modelRoute({ ...settings, agentOauthToken });
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/${isToken ? "messages/count_tokens" : "models"}`;
  url.search = isToken ? "beta=true" : "limit=1";
  const beta = { "content-type": "application/json", "anthropic-beta": "oauth-2025-04-20" };
  const late = AbortSignal.timeout(limitMs);
  const proxies = proxyAgents();
  const began = performance.now();
  const sent = (url.protocol === "https:" ? https : http).request(url, {
    method: isToken ? "POST" : "GET",
    headers: { ...headers, "anthropic-version": "2023-06-01", ...(isToken && beta) },
    agent: proxies.of(url) ?? false,
    signal: AbortSignal.any([signal, late]),
  });
  sent.on("error", () => undefined).end(isToken ? "{}" : undefined);
  const answered = once(sent, "response").finally(() => {
    sent.destroy();
    proxies.destroy();
  });
  const [answer] = (await answered.catch(({ message, code }: NodeJS.ErrnoException) => {
    const why = late.aborted ? `nothing comes within ${limitMs / 1000} s` : message || code;
    const wayOut = "check MODEL_API_BASE_URL, the network, and the variables for a proxy and certificates";
    throw new Error(`${url.origin} does not answer: ${why}; ${wayOut}`);
  })) as [IncomingMessage];
  const { statusCode: status = 0, headers: head } = answer;
  const isHtml = /html/i.test(head["content-type"] ?? "");
  const [verdict, words] = judge(settings, { status, isHtml, isToken });
  const credential = modelCredential(settings) ?? "no credential";
  const ms = Math.round(performance.now() - began);
  const text = `${url.origin}${url.pathname} answers ${status} in ${ms} ms to ${credential}${words}`;
  if (verdict === "ok") return text;
  throw new (verdict === "fault" ? Error : Warning)(text);
};

/** The first rule that applies. A credential that is not the service's is the agent CLI's own, which may renew it. */
export const judge = (
  { agentOauthToken, modelAuthToken, modelApiKey }: Diagnosis["settings"],
  { status, isHtml, isToken }: { status: number; isHtml: boolean; isToken: boolean },
): [Check["status"], words: string] => {
  const isRefused = [401, 403].includes(status);
  const isOurs = (agentOauthToken ?? modelAuthToken ?? modelApiKey) !== null;
  if (isRefused && isOurs) return ["fault", ": it is refused, so set another one"];
  if (isRefused) return ["warning", ": log the agent CLI in again if jobs fail"];
  if (/^(5|407)/.test(`${status}`))
    return ["fault", ": try again, or check MODEL_API_BASE_URL and the proxy"];
  if (status === 429) return ["warning", ": a limit is reached"];
  if (`${status}`.startsWith("3"))
    return ["warning", ": a redirect, so name its target in MODEL_API_BASE_URL"];
  if (isHtml) return ["warning", ", a page in HTML: check MODEL_API_BASE_URL"];
  if (isToken ? status === 400 : status < 300) return ["ok", ""];
  return ["ok", ", which does not tell whether that is good"];
};

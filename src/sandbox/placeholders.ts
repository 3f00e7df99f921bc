import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { bracketed, judge, parseHosts, type AllowedHost } from "../lib/allowed-hosts.ts";
import { endToEnd } from "../lib/end-to-end.ts";
import { Refusal } from "./refusal.ts";

/** A secret that a run knows by its placeholder only. */
export type AgentSecret = {
  name: string;
  placeholder: string;
  /** Printable ASCII. */
  value: string;
  /** Names, or `name:port`. Without a port it is 443. */
  hosts: readonly string[];
  /** The only header that it is put into; null: `Authorization`. */
  header: string | null;
};

/** A host and a port that a run asks for by CONNECT. */
export type HostAndPort = { name: string; port: number };

type Headers = Record<string, string | string[]>;

/** @throws Error with a sentence when no header can have a value */
export const requireHeaderValues = (secrets: readonly AgentSecret[]): void => {
  const wrong = secrets.filter(({ value }) => !/^[\x20-\x7e]+$/.test(value)).map(({ name }) => name);
  if (wrong.length > 0)
    throw new Error(
      `the secret ${wrong.join(", ")} goes into a header, so its value must be one line of ASCII: set it again`,
    );
};

/** The values that go to the host. Never to port 80, where all could read it. */
const secretsFor = (secrets: readonly AgentSecret[], target: HostAndPort): AgentSecret[] =>
  target.port === 80 ? [] : secrets.filter(({ hosts }) => judge(parseHosts(hosts), target) !== "refused");

/** The headers of a request with values in the place of placeholders: each in its own header, nothing else is changed. */
const putIn = (headers: Headers, secrets: readonly AgentSecret[]): Headers => {
  const all = { ...headers };
  for (const { placeholder, value, header } of secrets) {
    const name = (header ?? "authorization").toLowerCase();
    const given = all[name];
    if (typeof given === "string") all[name] = filled(given, { placeholder, value });
  }
  return all;
};

/** Also within the login of `Basic`, which is base64. */
const filled = (text: string, { placeholder, value }: Pick<AgentSecret, "placeholder" | "value">): string => {
  const put = (plain: string): string => plain.split(placeholder).join(value);
  const [, scheme = "", login = ""] = /^(basic +)([a-z0-9+/]+=*)$/i.exec(text) ?? [];
  const plain = Buffer.from(login, "base64").toString("latin1");
  return plain.includes(placeholder)
    ? `${scheme}${Buffer.from(put(plain), "latin1").toString("base64")}`
    : put(text);
};

/** The headers of an answer, in which a host may repeat what it got. */
export const takenOut = (headers: Headers, secrets: readonly AgentSecret[]): Headers => {
  const without = (text: string): string =>
    secrets.reduce((rest, { value, placeholder }) => rest.split(value).join(placeholder), text);
  const changed = Object.entries(headers).map(([name, value]) => [
    name,
    typeof value === "string" ? without(value) : value.map(without),
  ]);
  return Object.fromEntries(changed) as Headers;
};

/** What the door does with requests to a host whose TLS it ends. */
export type Rule = { target: HostAndPort; secrets: readonly AgentSecret[]; reads: boolean };

/** For a host that is asked for by CONNECT; null: what goes there is not looked at. @throws Refusal */
export const ruleFor = (
  { secrets, readOnly }: { secrets: readonly AgentSecret[]; readOnly: readonly AllowedHost[] },
  target: HostAndPort,
): Rule | null => {
  const rule = { target, secrets: secretsFor(secrets, target), reads: isReadOnly(readOnly, target) };
  if (rule.reads && target.port === 80) throw new Refusal(403, "Ask for http://host/path, or port 443");
  return rule.reads || rule.secrets.length > 0 ? rule : null;
};

export const isReadOnly = (hosts: readonly AllowedHost[], target: HostAndPort): boolean =>
  judge(hosts, target) !== "refused";

/**
 * What a setup sends, a host must not store where others read it: where only reading goes, GET and HEAD pass, and to a
 * secret's host git's POST to fetch. Some servers take a method in a header for that of the request.
 * @throws Refusal
 */
export const requireReading = (
  { method = "", url = "", headers }: Pick<IncomingMessage, "method" | "url" | "headers">,
  { secrets, reads }: Omit<Rule, "target">,
): void => {
  const isFetch =
    secrets.length > 0 &&
    method === "POST" &&
    /^[^?#]*\/git-upload-pack$/.test(url) &&
    headers["content-type"] === "application/x-git-upload-pack-request";
  const isOther = Object.keys(headers).some((name) => /^x-(http-)?method/.test(name));
  if (reads && (isOther || !(["GET", "HEAD"].includes(method) || isFetch)))
    throw new Refusal(405, "In a setup this host is for reading: GET, HEAD, and git fetch of a secret's");
};

/** Where a request in a connection whose TLS is ended here goes. @throws Refusal */
export const endedRequest = (asked: IncomingMessage, rule: Rule) => {
  const { servername } = asked.socket as TLSSocket & { servername: string | false };
  const { method, url: path = "/", headers } = asked;
  const { target, secrets } = rule;
  const objection = objectionTo({ method, url: path, headers, servername }, target);
  if (objection !== null) throw new Refusal(objection.status, objection.message);
  requireReading(asked, rule);
  const url = new URL(`https://${bracketed(target.name)}:${target.port}`);
  return { url, path, headers: { ...putIn(endToEnd(asked), secrets), host: url.host }, secrets };
};

type Asked = Pick<IncomingMessage, "method" | "url" | "headers"> & {
  /** The name that TLS asked for; false: none. */
  servername: string | false;
};

/**
 * Why a request in a connection whose TLS is ended here is not passed on; null: it is.
 *
 * | request                                         | why not                                                   |
 * |-------------------------------------------------|-----------------------------------------------------------|
 * | for another host, by Host or by TLS             | several hosts share a server: another would get the value |
 * | its target is no path: `https://other/`, `*`    | the same                                                  |
 * | TRACE                                           | the answer repeats the headers                            |
 * | asks for another protocol, such as WebSocket    | it would go past what is looked at here                   |
 */
const objectionTo = (
  { method, url = "", headers, servername }: Asked,
  { name, port }: HostAndPort,
): { status: number; message: string } | null => {
  const shown = bracketed(name);
  const isOther =
    ![`${shown}:${port}`, ...(port === 443 ? [shown] : [])].includes(headers.host?.toLowerCase() ?? "") ||
    (servername !== false && servername.toLowerCase() !== name);
  if (isOther) return { status: 421, message: `This connection is for ${shown}:${port} only` };
  if (!url.startsWith("/")) return { status: 400, message: "Ask for a path" };
  if (method === "TRACE") return { status: 405, message: "TRACE repeats secrets" };
  if (headers.upgrade !== undefined)
    return { status: 501, message: `${shown} has a secret of this run: only HTTP/1.1 gets it, no WebSocket` };
  return null;
};

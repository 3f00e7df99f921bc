import { z } from "zod";
import { BlockList, isIP } from "node:net";
import { parseHosts } from "../lib/allowed-hosts.ts";

/** Formats of variables. Each message completes "NAME …". */

export const text = z.string();
export const optional = text.nullable();
export const list = text.transform((value) => items(value).filter((item) => item !== ""));

export const flag = z
  .enum(["true", "false", "1", "0", "yes", "no", "on", "off"], "must be true or false")
  .transform((value) => ["true", "1", "yes", "on"].includes(value));

export const integer = (min: number, max: number) =>
  text
    .regex(/^\d+$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

export const portRange = text.refine((range) => {
  const [, first, last] = /^(\d{1,5})-(\d{1,5})$/.exec(range)?.map(Number) ?? [];
  // With fewer it may lack ten from a multiple of ten on.
  return first !== undefined && last !== undefined && first > 0 && last < 65_536 && last - first >= 18;
}, "must be the first and the last of at least 19 ports, as 20000-29999");

export const usd = text.regex(/^\d+(\.\d+)?$/, "must be an amount in USD like 25 or 0.50").transform(Number);

export const seconds = integer(0, 31_536_000);

/** `5,20,60` */
export const listOfSeconds = list.pipe(z.array(seconds).min(1, "must be numbers of seconds, with commas"));

export const oneOf = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, `must be one of ${values.join(", ")}`);

/** `settings.ts` has replaced a leading `~/` before. */
export const path = text.refine((value) => value.startsWith("/"), "must be an absolute path");
export const optionalPath = path.nullable();
export const paths = list.pipe(path.array());

export const httpUrl = z.url({ protocol: /^https?$/, error: "must be an http:// or https:// URL" });

/** Of an instance or a bridge; paths are added to it. */
export const serviceUrl = httpUrl.refine(
  (value) => !/[?#]|\/\/[^/]*@/.test(value),
  "must not hold credentials, ? or #",
);
export const serviceUrls = list.pipe(serviceUrl.array());

/** Of a repository; credentials would end up in logs and files. */
export const gitUrl = text
  .regex(/^((https?|ssh|file):\/\/|\/|[\w.-]+@[\w.-]+:)[^\s\\]+$/, "must be the URL of a git repository")
  .refine((url) => !/^https?:\/\/[^/]*@/.test(url), "must not hold credentials: set GIT_HOST_TOKEN instead");

export const address = text.regex(
  /^[A-Za-z0-9.:[\]_%-]+$/,
  "must be one address or host name, without scheme, port or spaces",
);

/** Name or e-mail in a commit: git would drop these characters or break the header at them. */
export const identity = text.regex(/^[^<>\r\n]+$/, "must not hold < or > or a line break");

const headerSafe = /^[\x21-\x7e]+$/;

export const apiKey = text.regex(
  headerSafe,
  "must be printable ASCII without spaces: it travels in a header",
);

/** A stray comma or space is refused rather than dropped: it may be a key that somebody believes is set. */
export const apiKeys = text.transform((value, context) => {
  const keys = items(value);
  if (value === "") return [];
  for (const [index, key] of keys.entries()) {
    if (key !== "" && headerSafe.test(key)) continue;
    const wrong = key === "" ? "is empty" : "must be printable ASCII without spaces";
    context.addIssue(`has ${keys.length} comma-separated entries, of which number ${index + 1} ${wrong}`);
  }
  return keys;
});

/** Hosts that agents may reach: see `parseHosts`. */
export const hosts = list.superRefine((names, context) => {
  try {
    parseHosts(names, true);
  } catch (error) {
    context.addIssue(
      `names a host that cannot be: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
});

export const variableNames = list.refine(
  (names) => names.every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)),
  "must be names of variables, separated by commas",
);

/** What a key is made of. */
export const secretsKey = text.min(32, "must have at least 32 characters");

export const directoryNames = list.refine(
  (names) => names.every((name) => !name.includes("/") && name !== "." && name !== ".."),
  "must be names of directories without a slash, separated by commas",
);

export const profileName = text.regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be the name of a profile");

export const instanceName = text.regex(
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/,
  "must be letters, digits and `._-`, beginning with a letter or digit",
);

/** The name of a directory, and part of keys and model names. */
export const agentName = text.regex(
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
  "must be a directory's name of letters, digits and ._-",
);

export type DisconnectPolicy = { kind: "cancel"; graceSeconds: number } | { kind: "detach" };

export const disconnectPolicy = text
  .regex(/^(cancel|detach|grace:\d{1,6})$/, "must be cancel, detach or grace:SECONDS")
  .transform((value): DisconnectPolicy =>
    value === "detach"
      ? { kind: "detach" }
      : { kind: "cancel", graceSeconds: Number(value.split(":")[1] ?? 0) },
  );

/** PEM from an environment file often has its line breaks written as `\n`. */
export const pem = text
  .transform((value) => (value.includes("\n") ? value : value.replaceAll("\\n", "\n")))
  .refine(isPem, "must be PEM text that begins with -----BEGIN");

export const base64Pem = text.refine(
  (value) => isPem(Buffer.from(value, "base64").toString("latin1")),
  "must be PEM text in base64",
);

const items = (value: string): string[] => value.split(",").map((item) => item.trim());

function isPem(value: string): boolean {
  return /^-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(value.trim());
}

/**
 * Whether only this machine can reach a service that listens there. Of all names, only localhost counts as loopback.
 */
export const isLoopbackHost = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  const family = isIP(bare);
  if (family === 0) return bare === "localhost";
  return loopback.check(bare, family === 4 ? "ipv4" : "ipv6");
};

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

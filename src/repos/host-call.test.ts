import { expect, test } from "vitest";
import { GitError } from "../lib/git.ts";
import { HostError, limitOf, mayPass, overtaken } from "./host-call.ts";

const gitSaid = (said: string) => new GitError("git failed", { exitCode: 128, ended: "exited", said });
const porcelain = "To https://host/a/b\n!\tabc:refs/heads/x\t[remote rejected]";

test.each([
  "GnuTLS recv error (-110): The TLS connection was non-properly terminated.",
  "Empty reply from server",
  "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to github.com:443",
  "kex_exchange_identification: Connection closed by remote host\nfatal: Could not read from remote repository.",
  "The requested URL returned error: 502",
  `${porcelain} (Internal Server Error)\nDone`,
])("what git says of a server that breaks off may pass: %s", (said) => {
  expect(mayPass(gitSaid(`fatal: unable to access 'https://host/a/b.git/': ${said}`))).toBe(true);
});

test.each([
  "The requested URL returned error: 403",
  "SSL certificate problem: unable to get local issuer certificate",
  `${porcelain} (pre-receive hook declined)`,
  `${porcelain} (cannot lock ref 'refs/heads/a/b': 'refs/heads/a' exists; cannot create 'refs/heads/a/b')`,
])("what stays as it is is not tried again: %s", (said) => {
  expect(mayPass(gitSaid(`fatal: ${said}`))).toBe(false);
  expect(said).not.toMatch(overtaken);
});

test.each([
  `${porcelain} (cannot lock ref 'refs/heads/x': is at 1 but expected 2)`,
  `${porcelain} (incorrect old value provided)`,
  "!\tabc:refs/heads/x\t[rejected] (stale info)",
])("a push that another one overtook is told by git's words: %s", (said) => {
  expect(said).toMatch(overtaken);
});

test.each([
  "error connecting to api.github.com; check your internet connection",
  "read tcp: use of closed network connection",
  "stream error: stream ID 1; INTERNAL_ERROR",
  "http2: server sent GOAWAY",
])("what gh says without an answer may pass: %s", (said) => {
  expect(mayPass(new HostError(said, 0))).toBe(true);
});

test("a limit ends when the host says, in seconds or as a date; one without an end lasts over a minute", () => {
  const secondsOf = (status: number, headers: Record<string, string>, message = "gh: limited") => {
    const error = new HostError(message, status, headers);
    const at = limitOf(error);
    return at === 0 ? mayPass(error) : Math.round((at - Date.now()) / 1000);
  };
  const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
  expect(secondsOf(429, { "retry-after": "30" })).toBe(30);
  expect(Math.abs(Number(secondsOf(429, { "retry-after": inAnHour })) - 3600)).toBeLessThan(3);
  expect(Math.abs(Number(secondsOf(403, { "retry-after": inAnHour })) - 3600)).toBeLessThan(3);
  const far = [{ "retry-after": "1e300" }, { "retry-after": "Fri, 31 Dec 2099 23:59:59 GMT" }];
  const reset = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999999" };
  expect([...far, reset].map((headers) => secondsOf(403, headers))).toEqual([3600, 3600, 3600]);
  expect(secondsOf(403, { "x-ratelimit-remaining": "0" })).toBe(false);
  const secondary = "gh: You have exceeded a secondary rate limit (HTTP 403)";
  expect(secondsOf(403, { "x-ratelimit-remaining": "4000" }, secondary)).toBe(61);
  expect(secondsOf(403, {})).toBe(false);
  expect(secondsOf(403, { "retry-after": "soon" })).toBe(false);
});

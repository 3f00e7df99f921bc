import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { generate } from "selfsigned";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { supervise } from "../lib/process/supervise.ts";
import type { AgentSecret } from "./placeholders.ts";
import { createSandbox } from "./sandbox.ts";

// Loopback, but not an address that programs ask for beside their proxy.
const address = "127.0.0.2";
const { private: key, cert } = await generate([{ name: "commonName", value: address }], {
  keyType: "ec",
  extensions: [
    { name: "basicConstraints", cA: true, critical: true },
    { name: "subjectAltName", altNames: [{ type: 7, ip: address }] },
  ],
});
const trusted = getCACertificates("default");
setDefaultCACertificates([...trusted, cert]);
afterFile(async () => setDefaultCACertificates(trusted));

const startHost = async () => {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer({ key, cert }, (asked, answer) => {
    seen.push(asked.headers);
    answer.end("reached\n");
  }).listen(0, address);
  await once(server, "listening");
  afterFile(async () => void server.close());
  return { seen, port: (server.address() as AddressInfo).port };
};

const value = "real-canary-8c4";
const secretFor = (port: number): AgentSecret => ({
  name: "TOKEN",
  placeholder: "placeholder-of-token",
  value,
  hosts: [`${address}:${port}`],
  header: null,
});
const path = `${dirname(process.execPath)}:/usr/bin:/bin`;
const nothing = { hosts: [], read: [], write: [], memoryBytes: null, processes: null };

test.each(["bwrap", "landlock"] as const)(
  "%s: curl and Node send the value to its host, which is nowhere inside; another host keeps its own certificate",
  async (mode) => {
    const [named, other] = [await startHost(), await startHost()];
    const { sandbox } = await createSandbox(mode);
    const hosts = [named, other].map(({ port }) => ({ name: address, port, local: true }));
    const cwd = await temporaryDirectory();
    await using entered = await sandbox.enter({
      command: "sh",
      path,
      home: "/home/agent",
      cwd,
      writable: [],
      readable: [],
      routes: [],
      allowed: { ...nothing, hosts, temporaryBytes: 64 * 1024 * 1024 },
      secrets: [secretFor(named.port)],
      onDenied: () => undefined,
    });
    const asks = `fetch("https://${address}:${named.port}/", { headers: { authorization: "Bearer " + process.env.TOKEN } })
      .then((answer) => answer.text()).then(console.log, console.log)`;
    const script = `
      curl -sS -u "me:$TOKEN" https://${address}:${named.port}/
      node -e '${asks.replaceAll("\n", " ")}'
      curl -sS -H "authorization: $TOKEN" https://${address}:${other.port}/ 2>&1
      curl -sSk -H "authorization: $TOKEN" https://${address}:${other.port}/
      env; cat /proc/self/environ /proc/$$/cmdline; cat $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS`;
    const started = await supervise({
      command: "sh",
      args: ["-c", script],
      cwd,
      env: { PATH: path, HOME: "/home/agent", ...entered?.env, TOKEN: "placeholder-of-token" },
      marker: { name: "SERVICE_TEST", value: randomUUID() },
      box: entered?.box ?? null,
      stdin: "",
    });
    if (!started.ok) throw new Error(started.message);
    let output = "";
    for (const stream of [started.process.stdout, started.process.stderr])
      stream.on("data", (piece: Buffer) => (output += piece.toString()));
    await started.process.ended;
    expect(output).toMatch(/^reached\nreached\n+curl: \(60\).*\n(?:.*\n)*?reached\n/);
    expect(named.seen.map(({ authorization }) => authorization)).toEqual([
      `Basic ${Buffer.from(`me:${value}`).toString("base64")}`,
      `Bearer ${value}`,
    ]);
    expect(other.seen.map(({ authorization }) => authorization)).toEqual(["placeholder-of-token"]);
    expect(output).not.toContain(value);
    // What programs trust already, they go on trusting.
    expect(output).toContain(readFileSync("/etc/ssl/certs/ca-certificates.crt", "utf8"));
  },
);

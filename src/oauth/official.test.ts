import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport, SSEClientTransport } from "@modelcontextprotocol/client";
import type { OAuthClientProvider } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { lastingPort } from "../../test/lasting-port.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { listenOAuth } from "./oauth-server.fixture.ts";

test("61. the official suite's scenarios for authorization servers pass, through the consent page", async () => {
  const { issuer, registered, allow } = await listenOAuth();
  const port = await lastingPort();
  const { client_id } = await registered({ redirect_uris: [`http://127.0.0.1:${port}/callback`] });
  const results = await temporaryDirectory();
  const suite = join(
    import.meta.dirname,
    "../../node_modules/@modelcontextprotocol/conformance/dist/index.js",
  );
  const given = [
    "--url",
    issuer,
    "--client-id",
    client_id,
    "--port",
    String(port),
    "--resource",
    `${issuer}/mcp`,
  ];
  const child = spawn(process.execPath, [suite, "authorization", ...given, "--output-dir", results], {
    cwd: results,
    env: { PATH: process.env["PATH"], HOME: results },
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const ended = once(child, "exit");
  const url = await until(() => /^http\S+\/authorize\?\S+$/m.exec(output)?.[0]);
  await until(() => output.includes("Callback server started"));
  await fetch(await allow(url));
  await ended;
  expect(output).toContain("✓ authorization-server-metadata-endpoint: 1 passed, 0 failed");
  expect(output).toContain("✓ authorization-code-grant: 1 passed, 0 failed");
});

/** What an application keeps, in memory. */
const provider = (allow: (url: URL) => Promise<string>) => {
  const kept: { client?: object; tokens?: object; discovery?: object; verifier: string; location: string } = {
    verifier: "",
    location: "",
  };
  const given: OAuthClientProvider = {
    redirectUrl: "http://localhost:7777/callback",
    clientMetadata: { redirect_uris: ["http://localhost:7777/callback"], client_name: "The official client" },
    clientInformation: () => kept.client as Awaited<ReturnType<OAuthClientProvider["clientInformation"]>>,
    saveClientInformation: (client: object) => void (kept.client = client),
    tokens: () => kept.tokens as Awaited<ReturnType<OAuthClientProvider["tokens"]>>,
    saveTokens: (tokens: object) => void (kept.tokens = tokens),
    redirectToAuthorization: async (url: URL) => void (kept.location = await allow(url)),
    saveCodeVerifier: (verifier: string) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: (discovery: object) => void (kept.discovery = discovery),
    discoveryState: () =>
      kept.discovery as Awaited<ReturnType<NonNullable<OAuthClientProvider["discoveryState"]>>>,
  };
  return { given, kept };
};

test.each(["/mcp", "/sse"])("62. the official client signs in at %s by itself", async (path) => {
  const { issuer, allow } = await listenOAuth();
  const { given, kept } = provider(allow);
  const newTransport = () =>
    path === "/mcp"
      ? new StreamableHTTPClientTransport(new URL(issuer + path), { authProvider: given })
      : new SSEClientTransport(new URL(issuer + path), { authProvider: given });
  const newClient = () => new Client({ name: "test", version: "1" });
  const first = newTransport();
  await expect(newClient().connect(first)).rejects.toThrow(/[Uu]nauthorized/);
  await first.finishAuth(new URL(kept.location).searchParams);
  const client = newClient();
  await client.connect(newTransport());
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toContain("dispatch_task");
  await client.close();
});

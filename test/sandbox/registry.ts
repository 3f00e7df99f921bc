import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterFile } from "../cleanup.ts";
import { temporaryDirectory } from "../temporary.ts";

/** A registry of npm on loopback with one package, `demo-greeting`, which exports "hello". */
export const startRegistry = async (): Promise<{ port: number; asked: string[] }> => {
  const directory = await temporaryDirectory();
  const manifest = { name: "demo-greeting", version: "1.0.0", main: "index.js" };
  await mkdir(join(directory, "package"));
  await writeFile(join(directory, "package/package.json"), JSON.stringify(manifest));
  await writeFile(join(directory, "package/index.js"), 'module.exports = "hello";\n');
  const archive = join(directory, "demo-greeting-1.0.0.tgz");
  execFileSync("tar", ["-czf", archive, "-C", directory, "package"]);
  const content = await readFile(archive);
  const integrity = `sha512-${createHash("sha512").update(content).digest("base64")}`;
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    if (request.url === "/demo-greeting-1.0.0.tgz") return void response.end(content);
    if (request.url !== "/demo-greeting") return void response.writeHead(404).end("{}");
    const dist = { tarball: `http://${request.headers.host}/demo-greeting-1.0.0.tgz`, integrity };
    const versions = { "1.0.0": { ...manifest, dist } };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ name: manifest.name, "dist-tags": { latest: "1.0.0" }, versions }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(() => server.close());
  return { port: (server.address() as AddressInfo).port, asked };
};

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterFile } from "../cleanup.ts";

const modules = join(import.meta.dirname, "..", "..", "node_modules");
const served = [`node-linux-${process.arch}`, "@anthropic-ai/claude-code"];

/** A registry of npm on loopback that has what README installs beside svc, as it lies in this checkout. Returns its URL. */
export const startRegistry = async (): Promise<string> => {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "").slice(1);
    const name = path.replace(/\.tar$/, "");
    if (!served.includes(name)) return void response.writeHead(404).end("{}");
    if (path === name) return void describe(name).then((text) => response.end(text));
    const args = ["--create", "--directory", join(modules, name), "--transform", "s,^\\.,package,", "."];
    spawn("tar", args, { stdio: ["ignore", "pipe", "inherit"] }).stdout.pipe(response);
  });
  afterFile(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const describe = async (name: string): Promise<string> => {
    const manifest = JSON.parse(await readFile(join(modules, name, "package.json"), "utf8")) as {
      version: string;
    };
    const { version } = manifest;
    // Its program is in place: nothing is left to fetch or to run.
    const whole = {
      ...manifest,
      scripts: {},
      optionalDependencies: {},
      dist: { tarball: `${url}/${name}.tar` },
    };
    return JSON.stringify({ name, "dist-tags": { latest: version }, versions: { [version]: whole } });
  };
  return url;
};

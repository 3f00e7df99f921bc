import { spawn } from "node:child_process";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { afterFile } from "../cleanup.ts";
import { temporaryDirectory } from "../temporary.ts";

const modules = join(import.meta.dirname, "..", "..", "node_modules");
const served: Record<string, string> = {
  [`node-linux-${process.arch}`]: "bin/node",
  "@anthropic-ai/claude-code": "bin/claude.exe",
};

/**
 * A registry of npm on loopback that has what README installs beside svc, as it lies in this checkout; but for the programs,
 * which only start those of the checkout until `placePrograms`: npm takes ten seconds of the processor for their 370 MB.
 * Returns its URL.
 */
export const startRegistry = async (): Promise<string> => {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "").slice(1);
    const name = path.replace(/\.tar$/, "");
    const program = served[name];
    if (program === undefined) return void response.writeHead(404).end("{}");
    if (path === name) return void describe(name).then((text) => response.end(text));
    void pack(name, program).then((tar) => tar.pipe(response));
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

const pack = async (name: string, program: string): Promise<Readable> => {
  const stage = await temporaryDirectory();
  const real = join(modules, name, program);
  await mkdir(dirname(join(stage, program)), { recursive: true });
  await writeFile(join(stage, program), `#!/bin/sh\nexec "${real}" "$@"\n`, { mode: 0o755 });
  const rest = ["--directory", join(modules, name), "--exclude", `./${program}`, "."];
  const args = ["--create", "--transform", "s,^\\.,package,", "--directory", stage, `./${program}`, ...rest];
  return spawn("tar", args, { stdio: ["ignore", "pipe", "inherit"] }).stdout;
};

/** Puts the programs themselves where npm has installed the packages. */
export const placePrograms = async (packages: string): Promise<void> => {
  for (const [name, program] of Object.entries(served))
    await copyFile(join(modules, name, program), join(packages, name, program));
};

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import postgres from "pg";
import { afterFile } from "./cleanup.ts";
import { lastingPort } from "./lasting-port.ts";
import { until } from "./until.ts";

const run = promisify(execFile);

/** Where Debian has the programs of each version. */
const versions = "/usr/lib/postgresql";

/** PostgreSQL refuses to run as root: there it runs as nobody. */
const nobody = 65_534;
const isRoot = process.getuid?.() === 0;
const under = isRoot ? ["setpriv", `--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups"] : [];

/** A real PostgreSQL of the caller's own on a free loopback port, kept on disk so that it can be started again. */
export const spawnPostgres = async () => {
  const [version = ""] = (await readdir(versions)).toSorted((a, b) => Number(b) - Number(a));
  const program = (name: string): string => join(versions, version, "bin", name);
  const directory = await mkdtemp(join(tmpdir(), "svc-postgres-"));
  if (isRoot) await chown(directory, nobody, nobody);
  const data = join(directory, "data");
  const [command, ...rest] = [...under, program("initdb")];
  const init = ["--pgdata", data, "--username", "svc", "--auth", "trust", "--no-sync", "--encoding", "UTF8"];
  await run(command, [...rest, ...init, "--no-locale"], { cwd: directory });
  const port = await lastingPort();
  const url = `postgres://svc@127.0.0.1:${port}/postgres`;
  let child: ChildProcess = await launch();

  async function launch(): Promise<ChildProcess> {
    const options = { listen_addresses: "127.0.0.1", unix_socket_directories: "", fsync: "off" };
    const [name = "", ...args] = [
      ...under,
      program("postgres"),
      "-D",
      data,
      "-p",
      String(port),
      ...Object.entries(options).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
    ];
    const started = spawn(name, args, { cwd: directory, stdio: "ignore" });
    await until(() => isUp(url), { seconds: 30, what: `PostgreSQL on port ${port}` });
    return started;
  }

  /** SIGINT: it ends its connections and stops. */
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGINT");
    await exited;
  };

  return {
    url,
    stop,
    start: async (): Promise<void> => {
      child = await launch();
    },
    /** A new database of the server, by its URL. */
    newDatabase: async (): Promise<string> => {
      const name = `test_${process.hrtime.bigint()}`;
      await ask(url, `CREATE DATABASE ${name}`);
      return url.replace(/postgres$/, name);
    },
    remove: async (): Promise<void> => {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
};

/** The same for a test file, removed after it. */
export const startPostgres = async () => {
  const server = await spawnPostgres();
  afterFile(server.remove);
  return server;
};

/** The rows of one question on a connection of its own. */
export const ask = async (url: string, question: string): Promise<Record<string, unknown>[]> => {
  const client = new postgres.Client(url);
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(question)).rows;
  } finally {
    await client.end();
  }
};

const isUp = (url: string): Promise<boolean> =>
  ask(url, "SELECT 1").then(
    () => true,
    () => false,
  );

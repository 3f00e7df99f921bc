import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { createClient } from "../../src/client/client.ts";
import { afterFile } from "../cleanup.ts";
import type { Service } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

const run = promisify(execFile);

/** Runs `ip`; says what is missing where namespaces cannot be made. */
const ip = async (...args: string[]): Promise<void> => {
  await run("ip", args).catch((cause: unknown) => {
    throw new Error(
      `ip ${args.join(" ")} failed: hosts are network namespaces in these tests, for which root (CAP_NET_ADMIN, CAP_SYS_ADMIN) and iproute2 are needed`,
      { cause },
    );
  });
};

let made = 0;

/**
 * Hosts as network namespaces, each with a cable of its own to a host with a real Redis; nothing of them can be reached from
 * outside. Removed after the file.
 */
export const createHosts = async (names: readonly string[]) => {
  const id = `svc${process.pid}x${(made += 1)}`;
  const namespace = (name: string): string => `${id}-${name}`;
  const enter = (name: string): string[] => ["nsenter", `--net=/run/netns/${namespace(name)}`];
  const add = async (name: string): Promise<void> => {
    await ip("netns", "add", namespace(name));
    afterFile(() => ip("netns", "delete", namespace(name)));
    await ip("-n", namespace(name), "link", "set", "lo", "up");
  };

  await add("store");
  for (const [at, name] of names.entries()) {
    await add(name);
    const cable = ["type", "veth", "peer", "name", `to-${name}`, "netns", namespace("store")];
    await ip("link", "add", "cable", "netns", namespace(name), ...cable);
    await ip("-n", namespace(name), "address", "add", `10.231.${at}.2/30`, "dev", "cable");
    await ip("-n", namespace("store"), "address", "add", `10.231.${at}.1/30`, "dev", `to-${name}`);
    await ip("-n", namespace("store"), "link", "set", `to-${name}`, "up");
    await ip("-n", namespace(name), "link", "set", "cable", "up");
  }
  await startStore(
    enter("store"),
    names.map((_, at) => `10.231.${at}.1`),
  );

  return {
    /** The store, as this host reaches it. */
    kvUrl: (name: string): string => `redis://10.231.${names.indexOf(name)}.1:6379`,
    /** Command under which a program runs on this host. */
    enter,
    /** The same service, asked from here. */
    reach: async (name: string, service: Service): Promise<Service> => {
      const url = await relay(enter(name), Number(new URL(service.url).port));
      return { ...service, url, client: createClient({ baseUrl: url }) };
    },
    /** Nothing gets through any more; nobody is told. */
    cut: (name: string) => ip("-n", namespace(name), "link", "set", "cable", "down"),
    heal: (name: string) => ip("-n", namespace(name), "link", "set", "cable", "up"),
  };
};

const startStore = async (under: string[], addresses: string[]): Promise<void> => {
  const directory = await temporaryDirectory();
  const options = ["--dir", directory, "--appendonly", "yes", "--save", "", "--protected-mode", "no"];
  const child = start([...under, "redis-server", "--bind", "127.0.0.1", ...addresses, ...options]);
  await untilSays(child, /Ready to accept connections/, "the store to be there");
};

/** A loopback port here that leads to one on the host. */
const relay = async (under: string[], port: number): Promise<string> => {
  const path = join(await temporaryDirectory(), "relay");
  const program = join(import.meta.dirname, "partition-relay.mjs");
  await untilSays(start([...under, process.execPath, program, path, String(port)]), /relaying/, "the relay");
  const server = createServer((client) => {
    const there = connect(path);
    for (const [one, other] of [
      [client, there],
      [there, client],
    ] as const) {
      one.pipe(other);
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const start = ([command = "", ...args]: string[]): ChildProcess => {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  afterFile(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  });
  return child;
};

const untilSays = async (child: ChildProcess, what: RegExp, meaning: string): Promise<void> => {
  let said = "";
  child.stdout?.on("data", (data: Buffer) => (said += data.toString()));
  await until(
    () => {
      if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${said}`);
      return what.test(said);
    },
    { what: meaning },
  );
};

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

/** Who is not root makes the namespaces inside a user namespace of its own, in which it is root. */
const isRoot = process.getuid?.() === 0;

/** Runs a command on a host or for one; says what is missing where namespaces cannot be made. */
const orMissing = <Result>(command: string[], running: Promise<Result>): Promise<Result> =>
  running.catch((cause: unknown) => {
    throw new Error(
      `${command.join(" ")} failed: hosts are network namespaces in these tests, for which iproute2 is needed, and root or a user who may make user namespaces (user.max_user_namespaces above 0, kernel.unprivileged_userns_clone not 0, kernel.apparmor_restrict_unprivileged_userns not 1, no container that refuses unshare)`,
      { cause },
    );
  });

/** Command under which a program runs in the namespaces of a process. */
const into = (pid: number | undefined, ...namespaces: string[]): string[] => [
  "nsenter",
  `--target=${pid}`,
  ...(isRoot ? [] : ["--user", "--preserve-credentials"]),
  ...namespaces,
];

/**
 * Hosts as network namespaces, each with a cable of its own to a host with a real Redis; nothing of them can be reached from
 * outside. A namespace lasts as long as a process in it, which ends with the file, or with the tests.
 */
export const createHosts = async (names: readonly string[]) => {
  const pids = new Map<string, number | undefined>();
  const enter = (name: string): string[] => into(pids.get(name), "--net");
  const ip = async (name: string, ...args: string[]): Promise<void> => {
    const [command = "", ...rest] = [...enter(name), "ip", ...args];
    await orMissing([command, ...rest], run(command, rest));
  };
  /** The first makes the user namespace; the others join it, since a cable is between namespaces of one owner. */
  const add = async (name: string): Promise<void> => {
    const first = isRoot ? ["unshare"] : ["unshare", "--user", "--map-root-user"];
    const unshare = isRoot || name === "store" ? first : [...into(pids.get("store")), "unshare"];
    const command = [...unshare, "--net", "sh", "-c", "echo there; exec cat"];
    const child = start(command, "pipe");
    await orMissing(command, untilSays(child, /there/, "the host to be there"));
    pids.set(name, child.pid);
    await ip(name, "link", "set", "lo", "up");
  };

  await add("store");
  for (const [at, name] of names.entries()) {
    await add(name);
    const cable = ["type", "veth", "peer", "name", `to-${name}`, "netns", String(pids.get("store"))];
    await ip(name, "link", "add", "cable", ...cable);
    await ip(name, "address", "add", `10.231.${at}.2/30`, "dev", "cable");
    await ip("store", "address", "add", `10.231.${at}.1/30`, "dev", `to-${name}`);
    await ip("store", "link", "set", `to-${name}`, "up");
    await ip(name, "link", "set", "cable", "up");
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
    cut: (name: string) => ip(name, "link", "set", "cable", "down"),
    heal: (name: string) => ip(name, "link", "set", "cable", "up"),
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

const start = ([command = "", ...args]: string[], stdin: "ignore" | "pipe" = "ignore"): ChildProcess => {
  const child = spawn(command, args, { stdio: [stdin, "pipe", "inherit"] });
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

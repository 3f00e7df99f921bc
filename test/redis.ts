import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterFile } from "./cleanup.ts";
import { lastingPort } from "./lasting-port.ts";
import { temporaryDirectory } from "./temporary.ts";
import { until } from "./until.ts";

type Options = {
  /** Lines of the command line, e.g. `["--requirepass", "x"]`. */
  args?: string[];
  port?: number;
  directory?: string;
  /** Command and arguments it is started under. */
  under?: string[];
};

/** A real Redis of the test file's own on a free loopback port, kept on disk so that it can be restarted; killed after the file. */
export const startRedis = async ({ args = [], port, directory, under = [] }: Options = {}) => {
  const home = directory ?? (await temporaryDirectory());
  await mkdir(home, { recursive: true });
  const chosen = port ?? (await lastingPort());
  let child: ChildProcess = await launch();

  async function launch(): Promise<ChildProcess> {
    const [command = "", ...rest] = [
      ...under,
      "redis-server",
      ..."--bind 127.0.0.1 --appendonly yes --daemonize no --port".split(" "),
      String(chosen),
      "--save",
      "",
      "--dir",
      home,
      "--logfile",
      join(home, "redis.log"),
      ...args,
    ];
    const started = spawn(command, rest, { stdio: "ignore" });
    try {
      await until(() => isUp(chosen), { seconds: 30, what: `Redis on port ${chosen}` });
    } catch (error) {
      started.kill("SIGKILL");
      throw error;
    }
    return started;
  }

  const kill = async (signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGCONT");
    child.kill(signal);
    await exited;
  };
  afterFile(() => kill());

  return {
    url: `redis://127.0.0.1:${chosen}`,
    port: chosen,
    directory: home,
    pid: () => child.pid ?? 0,
    kill,
    /** Starts it again with what it had on disk. */
    restart: async (): Promise<void> => {
      await kill();
      child = await launch();
    },
    /** Stops it answering; connections stay open. */
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
  };
};

export type TestRedis = Awaited<ReturnType<typeof startRedis>>;

/** Whether something that speaks the protocol answers there, with or without a password. */
const isUp = async (port: number): Promise<boolean> => {
  const client = new Redis({ port, host: "127.0.0.1", lazyConnect: true, retryStrategy: () => null });
  let wantsPassword = false;
  client.on("error", (error) => (wantsPassword ||= error.message.startsWith("NOAUTH")));
  try {
    await client.connect();
    await client.ping();
    return true;
  } catch {
    return wantsPassword;
  } finally {
    client.disconnect();
  }
};

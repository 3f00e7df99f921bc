import { z } from "zod";
import { CommandMissingError, runCommand, type CommandResult } from "../lib/command.ts";
import type { Takeover } from "./fleet.ts";

export type Pod = {
  name: string;
  namespace: string;
  /** Running, Pending, Failed … */
  phase: string;
  /** Name or number of the port that the service listens on. */
  port: string;
};

type Options = {
  env: NodeJS.ProcessEnv;
  /** How long kubectl may take to answer, seconds. */
  patience: number;
};

const label = ["app.kubernetes.io/component", "service"] as const;
/** A pod with this variable is an instance without the label, too. */
const transport = "SERVICE_TRANSPORT";
/** The sign that tells an instance from other pods. */
export const sign = `label ${label.join("=")} or the variable ${transport}`;

/** The cluster of kubectl's current context. Every function rejects with a sentence that says what to do. */
export const createKubectl = ({ env, patience }: Options) => {
  const command = "kubectl";
  let context: string | null = null;

  const start = (args: readonly string[], more: Pick<Start, "signal" | "timeoutSeconds" | "onOutput">) =>
    runCommand({ command, args, cwd: process.cwd(), env, ...more }).catch((cause: unknown) => {
      if (!(cause instanceof CommandMissingError)) throw cause;
      throw new Error("kubectl is not installed: install it to see instances in Kubernetes", { cause });
    });

  const read = async (args: readonly string[], signal: AbortSignal, seconds = patience): Promise<string> => {
    const result = await start(args, { signal, timeoutSeconds: seconds });
    if (result.exitCode !== 0) throw failure(args, result, seconds);
    return result.stdout;
  };

  /** The context is the first one for good: a switch elsewhere must not lead an action to a pod of another cluster. */
  const readContext = async (signal: AbortSignal): Promise<string> =>
    (context ??= (await read(["config", "current-context"], signal)).trim());

  const at = ({ namespace }: Pod): string[] => [`--context=${context}`, `--namespace=${namespace}`];

  return {
    /** The pods in the namespace of the current context. */
    pods: async (signal: AbortSignal): Promise<Pod[]> => {
      const scope = [`--context=${await readContext(signal)}`, `--request-timeout=${patience}s`];
      const text = await read([...scope, "get", "pods", "--output=json"], signal);
      return podsOf(text);
    },
    /** Forwards a free port of this machine to the pod, until it is disposed of or the signal aborts. */
    forward: async (pod: Pod, signal: AbortSignal): Promise<AsyncDisposable & { url: string }> => {
      const stop = new AbortController();
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      const args = [...at(pod), "port-forward", "--address=127.0.0.1", `pod/${pod.name}`, `:${pod.port}`];
      let output = "";
      const onOutput = (piece: string): void => {
        output = (output + piece).slice(-1000);
        const port = /^Forwarding from 127\.0\.0\.1:(\d+) /m.exec(output)?.[1];
        if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
      };
      const both = AbortSignal.any([signal, stop.signal]);
      const ended = start(args, { signal: both, timeoutSeconds: longestForward, onOutput }).then(
        (result) => reject(failure(args, result, longestForward)),
        reject,
      );
      const late = new Error(`kubectl port-forward has not reached ${pod.name} within ${patience} s`);
      const timer = setTimeout(() => reject(late), patience * 1000);
      const end = async (): Promise<void> => {
        stop.abort();
        await ended;
      };
      try {
        return { url: await promise, [Symbol.asyncDispose]: end };
      } catch (error) {
        await end();
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    /** Runs `svc hooks sync` in the pod: result by target. */
    sync: async (pod: Pod, signal: AbortSignal): Promise<Record<string, string>> => {
      const args = [...at(pod), "exec", `pod/${pod.name}`, "--", "svc", "hooks", "sync", "--json"];
      const result = await start(args, { signal, timeoutSeconds: longestSync });
      const results = SyncResults.safeParse(parsedJson(result.stdout));
      // It ends with 1 when one of the targets could not be fetched: the results say which.
      if (results.success) return results.data;
      throw failure(args, result, longestSync);
    },
    shell: (pod: Pod): Takeover => ({
      program: command,
      args: [...at(pod), "exec", "--stdin", "--tty", `pod/${pod.name}`, "--", "bash"],
    }),
    logs: (pod: Pod): Takeover => ({
      program: command,
      args: [...at(pod), "logs", "--follow", "--tail=200", `pod/${pod.name}`],
    }),
  };
};

/** Result by target. */
export const SyncResults = z.record(z.string(), z.string());

type Start = Parameters<typeof runCommand>[0];

/** Seconds: a day, more than anybody looks at one instance. */
const longestForward = 86_400;
/** Seconds; as long as fetches of three repositories may take. */
const longestSync = 900;

const failure = (args: readonly string[], { ended, stderr }: CommandResult, seconds: number): Error => {
  const verb = args.find((argument) => !argument.startsWith("-")) ?? "";
  if (ended === "timed_out")
    return new Error(
      `kubectl ${verb} has not answered within ${seconds} s: check the cluster of its context`,
    );
  const said = stderr.trim().split("\n").at(-1)?.slice(0, 500) || "it says nothing";
  return new Error(`kubectl ${verb} failed: ${said}`);
};

/** Names become arguments: only those that Kubernetes itself allows. */
const Name = z.string().regex(/^[a-z0-9][a-z0-9.-]{0,252}$/, "is no name of Kubernetes");

const Container = z.object({
  env: z.array(z.object({ name: z.string(), value: z.string().default("") })).default([]),
  ports: z.array(z.object({ name: z.string().optional() })).default([]),
});

const PodList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({
        name: Name,
        namespace: Name,
        labels: z.record(z.string(), z.string()).default({}),
      }),
      spec: z.object({ containers: z.array(Container) }).default({ containers: [] }),
      status: z.object({ phase: z.string().default("Unknown") }),
    }),
  ),
});

const podsOf = (text: string): Pod[] => {
  const list = PodList.safeParse(parsedJson(text));
  if (!list.success) {
    const [issue] = list.error.issues;
    throw new Error(`kubectl get pods printed no list of pods: ${issue?.path.join(".")} ${issue?.message}`);
  }
  return list.data.items.flatMap(({ metadata: { name, namespace, labels }, spec, status }) => {
    const valueOf = (variable: string): string | undefined =>
      spec.containers.flatMap(({ env }) => env).find((one) => one.name === variable)?.value;
    const isLabelled = labels[label[0]] === label[1];
    if (!isLabelled && valueOf(transport) === undefined) return [];
    const isNamed = spec.containers.some(({ ports }) => ports.some((one) => one.name === "http"));
    const port = isLabelled || isNamed ? "http" : valueOf("SERVICE_PORT") || "8200";
    return [{ name, namespace, phase: status.phase, port }];
  });
};

const parsedJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

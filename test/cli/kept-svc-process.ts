import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

export type Command = {
  program: string;
  args: readonly string[];
  env: Record<string, string>;
  cwd: string;
  input: string;
  /** Written to both streams after the command. */
  mark: string;
};

export type Ended = { code: number };

let count = 0;

/** The program as its own process would run it: its entry is evaluated anew, what it imports is there already. */
const run = async ({ program, args, env, cwd, input, mark }: Command): Promise<void> => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(cwd);
  process.argv = [process.execPath, program, ...args];
  process.exitCode = undefined;
  Object.defineProperty(process, "stdin", {
    configurable: true,
    value: Readable.from(input === "" ? [] : [Buffer.from(input)]),
  });
  count += 1;
  await import(`${pathToFileURL(program).href}?${count}`);
  const code = Number(process.exitCode ?? 0);
  process.chdir("/");
  for (const stream of [process.stdout, process.stderr]) {
    stream.removeAllListeners("error");
    await new Promise((resolve) => stream.write(mark, resolve));
  }
  process.send?.({ code } satisfies Ended);
};

process.on("message", (command: Command) => void run(command));
process.on("disconnect", () => process.exit());

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { AgentProcess, SaidMessage } from "../../src/agents/agent.ts";
import { isWork } from "../../src/agents/claude/turn.ts";
import type { AgentEvent } from "../../src/contract/event.ts";
import { temporaryDirectory } from "../temporary.ts";
import { expectTidy, runFake, type FakeRunOptions } from "./run.ts";

export const message = (text: string, when: SaidMessage["when"] = "next"): SaidMessage => ({
  id: randomUUID(),
  text,
  when,
});

type Telling = Partial<FakeRunOptions> & {
  /** Done once, at the first sign of work, or the first event of that type. `heard`: the texts that it has taken up so far. */
  tell: (process: AgentProcess, heard: readonly string[]) => unknown;
  at?: AgentEvent["type"];
  /** The session to resume. */
  resume?: string;
};

/** A run that is told something while it works, with the texts that it has taken up. */
export const runTelling = async (prompt: string, { tell, at, resume, ...options }: Telling) => {
  const directory = options.directory ?? (await temporaryDirectory());
  const project = join(directory, ".config-of-job", "projects", directory.replaceAll(/[^a-zA-Z0-9]/g, "-"));
  const session = { id: resume ?? "", resumeFrom: join(project, `${resume}.jsonl`) };
  const { promise: process, resolve: onStart } = Promise.withResolvers<AgentProcess>();
  const told: Promise<unknown>[] = [];
  const heard: string[] = [];
  const done = await runFake(prompt, {
    ...options,
    directory,
    start: { hears: true, ...(resume !== undefined && { session }), ...options.start },
    onStart,
    onEvent: (event) => {
      if (event.type === "message") heard.push(event.text);
      if (told.length === 0 && (at === undefined ? isWork(event) : event.type === at))
        told.push(process.then((one) => tell(one, heard)));
    },
  });
  await Promise.all(told);
  expectTidy(done);
  return { ...done, directory, heard };
};

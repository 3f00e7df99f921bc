import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Ask, Reply } from "../../src/agents/agent.ts";
import { temporaryDirectory } from "../temporary.ts";
import { expectTidy, runFake, type FakeRunOptions } from "./run.ts";

type Asking = Partial<FakeRunOptions> & {
  asks?: { question: boolean; plan: boolean };
  /** One for each ask, in order; none: it stays open. */
  replies?: Reply[];
  onAsk?: (ask: Ask) => void;
  /** The session to resume, which asks anew by itself. */
  resume?: string;
};

/** A run that may ask, with what it has asked and what it has written of the answer to `answer.txt`. */
export const runAsking = async (prompt: string, given: Asking = {}) => {
  const { replies = [], asks = { question: true, plan: false }, onAsk, resume, ...options } = given;
  const directory = options.directory ?? (await temporaryDirectory());
  const asked: Ask[] = [];
  const project = join(directory, ".config-of-job", "projects", directory.replaceAll(/[^a-zA-Z0-9]/g, "-"));
  const session = { id: resume ?? "", resumeFrom: join(project, `${resume}.jsonl`) };
  const done = await runFake(prompt, {
    ...options,
    directory,
    start: { asks, ...(resume !== undefined && { session }), ...options.start },
    turn: {
      ...(resume !== undefined && prompt === "" && { content: [] }),
      onAsk: (ask) => {
        asked.push(ask);
        onAsk?.(ask);
        const reply = replies[asked.length - 1];
        if (reply !== undefined) ask.reply(reply);
      },
      ...options.turn,
    },
  });
  expectTidy(done);
  const answer = await readFile(join(directory, "answer.txt"), "utf8").catch(() => null);
  return { ...done, directory, asked, answer };
};

export const sqlite: Reply = { kind: "answers", answers: { "Which database?": "SQLite" } };

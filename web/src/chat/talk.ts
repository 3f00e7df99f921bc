import { ClientError } from "../../../src/client/client-error.ts";
import { client, needsKey, queries } from "../shell/service.ts";
import { createStore } from "../shell/store.ts";
import { take, textOf, type Block } from "./answer.ts";
import { keepConversation, keepTurn, readTurns, type Conversation, type Turn } from "./history.ts";

export const conversationsKey = ["chat", "conversations"];

/** A conversation in this tab. It goes on while another page is shown. */
const createTalk = () => ({
  /** Null: they are being read. */
  turns: createStore<readonly Turn[] | null>(null),
  /** Stops the answer under way; null: there is none. */
  stop: createStore<(() => void) | null>(null),
});

const talks = new Map<string, ReturnType<typeof createTalk>>();

export const talkOf = (id: string): ReturnType<typeof createTalk> => {
  const known = talks.get(id);
  if (known !== undefined) return known;
  const talk = createTalk();
  talks.set(id, talk);
  void readTurns(id)
    .catch(() => [])
    .then((turns) =>
      talk.turns.set(turns.map((turn) => (turn.state === "running" ? { ...turn, state: "cut" } : turn))),
    );
  return talk;
};

/** Forgets what this tab has of a conversation; stops its answer. */
export const leaveTalk = (id: string): void => {
  talks.get(id)?.stop.get()?.();
  talks.delete(id);
};

type Question = Pick<Turn, "id" | "question" | "isLive">;

/** Asks, and shows the answer as it comes. Resolves when it has ended, however it ended. */
export const ask = async (conversation: Conversation, question: Question): Promise<void> => {
  void keepConversation(conversation)
    .catch(() => undefined)
    .then(() => queries.invalidateQueries({ queryKey: conversationsKey }));
  const { id, model, at } = conversation;
  const nothing = { blocks: [], state: "running", error: null, tokens: null, began: at, ms: 0 } as const;
  await run({ ...nothing, ...question, conversation: id, model, at });
};

/** How long the service may take to stop an answer before the connection is closed anyway, ms. */
const cancelMs = 2000;

/** Asks a turn: a new one, or the last one again. */
export const run = async (asked: Turn): Promise<void> => {
  const talk = talkOf(asked.conversation);
  const { turns, stop } = talk;
  if (stop.get() !== null) return;
  const before = (turns.get() ?? []).filter(({ at }) => at !== asked.at);
  const connection = new AbortController();
  const blocks: Block[] = [];
  let answer: string | undefined;
  let isStopped = false;
  let turn: Turn = { ...asked, began: Date.now(), state: "running", error: null };
  const show = (changes: Partial<Turn> = {}): void => {
    turn = { ...turn, ...changes, blocks: [...blocks] };
    turns.set([...before, turn]);
  };
  const keep = (): void => {
    // It may have been removed meanwhile.
    if (talks.get(turn.conversation) === talk) void keepTurn(turn).catch(() => undefined);
  };
  stop.set(() => {
    isStopped = true;
    // Closing the connection alone would leave the answer to the service's disconnect policy.
    const cancelled =
      answer === undefined
        ? Promise.resolve()
        : client().cancelChat(answer, { signal: AbortSignal.timeout(cancelMs) });
    void cancelled.catch(() => undefined).then(() => connection.abort());
  });
  show();
  keep();
  const begin = performance.now();
  let frame = 0;
  let end: Partial<Turn> = { state: "done" };
  try {
    for await (const chunk of client().chat({ ...requestOf(turn, before), signal: connection.signal })) {
      answer ??= chunk.id;
      take(blocks, chunk);
      const { usage } = chunk;
      if (usage) turn = { ...turn, tokens: { read: usage.prompt_tokens, written: usage.completion_tokens } };
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        show();
      });
    }
  } catch (error) {
    end = isStopped ? { state: "stopped" } : failureOf(error);
  }
  cancelAnimationFrame(frame);
  show({ ...end, ms: performance.now() - begin });
  stop.set(null);
  keep();
};

const failureOf = (error: unknown): Pick<Turn, "state" | "error"> => {
  if (!(error instanceof ClientError)) return { state: "failed", error: String(error) };
  if (error.status === 401) needsKey.set(true);
  return { state: error.status === 0 ? "cut" : "failed", error: error.message };
};

/** Characters of earlier messages that are sent. */
const mostHistory = 2_000_000;

/** The request of a turn, the same whenever it is tried. The agent is given earlier messages only if it forgot them. */
const requestOf = ({ question, conversation, id, model, isLive }: Turn, before: readonly Turn[]) => {
  const earlier: { role: "user" | "assistant"; content: string }[] = [];
  let length = 0;
  for (const turn of before.toReversed()) {
    const said = textOf(turn.blocks);
    length += turn.question.length + said.length;
    if (length > mostHistory) break;
    // What failed before the agent said anything was perhaps never heard.
    const isHeard = said !== "" || turn.state === "done" || turn.state === "stopped";
    if (isHeard) earlier.unshift({ role: "assistant", content: said || "(nothing)" });
    earlier.unshift({ role: "user", content: turn.question });
  }
  return {
    body: {
      model,
      messages: [...earlier, { role: "user" as const, content: question }],
      metadata: { live_text: String(isLive) },
    },
    headers: { "x-conversation-id": conversation, "x-request-id": id },
  };
};

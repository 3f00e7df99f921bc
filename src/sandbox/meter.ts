import type { IncomingMessage } from "node:http";

const none = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
};
type Tokens = typeof none;
const kinds = Object.keys(none) as (keyof Tokens)[];

/** Counts what a run spends at the model, whoever in it asks: tokens by the model that the answers name. */
export const createMeter = () => ({
  /** Tokens of all answers, as far as these have come. */
  seen: {} as Record<string, Tokens>,
  /** Tokens of the answers that have ended or broken off. */
  ended: {} as Record<string, Tokens>,
  /** Called at the end of an answer. */
  onEnded: (): void => undefined,
  /** Whether the model may be asked. */
  isOpen: true,
});

export type Meter = ReturnType<typeof createMeter>;

/** Tells tokens in JSON and in server-sent events. Quotes within the model's words are escaped: it cannot imitate them. */
const facts = new RegExp(
  `"(?:(?<kind>${kinds.join("|")})"\\s*:\\s*(?<count>\\d{1,12})(?=\\D)|model"\\s*:\\s*"(?!__proto__")(?<name>[^"\\\\]{1,100})"|type"\\s*:\\s*"(?<event>content_block_delta|message_delta)")`,
  "g",
);

/** Longest of the facts, characters: so much of a piece is kept for the next one. */
const longestFact = 160;

/**
 * Reads an answer on its way.
 *
 * | the answer                        | its tokens                                                |
 * |-----------------------------------|-----------------------------------------------------------|
 * | names a kind several times        | the largest number: events repeat what was counted before |
 * | breaks off before its last number | at least one for each piece of output                     |
 * | names no `output_tokens`          | none: it is no message of the model                       |
 */
export const readAnswer = (answer: IncomingMessage, meter: Meter): void => {
  const [most, told] = [{ ...none }, { ...none }];
  let [text, model, pieces, isMessage, isWhole] = ["", "", 0, false, false];
  const add = (sums: Meter["seen"], before: Tokens): void => {
    const sum = (sums[model] ??= { ...none });
    for (const kind of kinds) sum[kind] += most[kind] - before[kind];
  };
  const take = (piece: Buffer): void => {
    text += piece.toString("latin1");
    let end = 0;
    for (const { 0: whole, index, groups = {} } of text.matchAll(facts)) {
      const { count, name = "", event } = groups;
      const kind = groups["kind"] as keyof Tokens | undefined;
      end = index + whole.length;
      if (kind !== undefined) most[kind] = Math.max(most[kind], Number(count));
      isMessage ||= kind === "output_tokens";
      model ||= name;
      if (event === "content_block_delta") pieces += 1;
      isWhole ||= event === "message_delta";
    }
    text = text.slice(Math.max(end, text.length - longestFact));
    if (isMessage) add(meter.seen, told);
    if (isMessage) Object.assign(told, most);
  };
  answer.on("data", take).once("close", () => {
    if (!isMessage) return;
    if (!isWhole) most.output_tokens = Math.max(most.output_tokens, pieces);
    add(meter.seen, told);
    add(meter.ended, none);
    meter.onEnded();
  });
};

import { randomUUID } from "node:crypto";
import { closeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { write } from "../write.mjs";

/** Longer than any test. */
const forever = () => delay(2 ** 31 - 1);

/** What it writes about itself, without an answer of the model. */
const ownLines = {
  control: ({ line }) =>
    line({ type: "control_response", response: { subtype: "success", request_id: "x" } }),
  request: ({ line }) =>
    line({ type: "control_request", request_id: randomUUID(), request: { subtype: "novelty" } }),
  started: ({ line, common }) => line({ type: "system", subtype: "status", ...common() }),
  echo: ({ replay, content }) => replay(content, randomUUID()),
  retry: ({ line, common }) =>
    line({ type: "system", subtype: "api_retry", attempt: 1, max_retries: 3, error: "x", ...common() }),
};

/** Says nothing at all, stops after `after` pieces of text, or writes lines of the kind `own` about itself. */
export const hang = async (turn) => {
  const { options, init, say } = turn;
  if (options.own !== undefined) {
    if (options.own !== "control" && options.own !== "request") init();
    for (;;) {
      ownLines[options.own](turn);
      await delay(20);
    }
  }
  if (options.after !== undefined) {
    init();
    for (let n = 0; n < options.after; n += 1) say(`Piece ${n}. `);
  }
  if (options.ignoreTerm) deaf();
  await forever();
};

/** Gives its result and stays, deaf to the end of its input. */
export const hangAfterResult = async ({ options, init, say, result }) => {
  init();
  say("All done, but I stay.");
  result({ result: "All done, but I stay." });
  if (options.ignoreTerm) deaf();
  await forever();
};

/** Gives a good result every `every` ms (20), of `kilobytes` if given, without end or `times` times; with `work` it says something before each. */
export const results = async ({ options, init, say, result }) => {
  const { every = 20, work = false, kilobytes = 0, times = Infinity } = options;
  init();
  for (let n = 0; n < times; n += 1) {
    if (work || n === 0) say("Again. ");
    result({ result: `Again.${"x".repeat(kilobytes * 1024)}` });
    await delay(every);
  }
};

export const ignoreTerm = async ({ init, say }) => {
  deaf();
  init();
  say("No signal but KILL ends me.");
  await forever();
};

export const exitWithoutResult = ({ options, init, say }) => {
  init();
  say("I leave without a result.");
  if (options.stderr) write(`${options.stderr}\n`, 2);
  process.exit(options.code ?? 0);
};

export const exitNonzeroAfterResult = ({ options, init, result }) => {
  init();
  result({ result: "Good work, bad exit." });
  process.exit(options.code ?? 3);
};

export const errorResult = ({ init, result }) => {
  init();
  result({ is_error: true, result: "I failed, whatever my exit code says.", terminal_reason: "error" });
  return 0;
};

/** Kills itself by `signal`, before or after a good result. */
export const die = async ({ options, init, say, result }) => {
  init();
  say("I am about to die.");
  if (options.afterResult) result({ result: "Good work, then death." });
  process.removeAllListeners("SIGTERM");
  process.kill(process.pid, options.signal ?? "SIGKILL");
  await forever();
};

/** A good result, then an error of its own shutdown. */
export const falseSecondResult = ({ init, say, result }) => {
  init();
  say("The real answer.");
  result({ result: "The real answer." });
  result({ subtype: "error_during_execution", is_error: true, result: undefined, errors: ["aborted"] });
  return 1;
};

/** Goes on after a good result and then fails in earnest. */
export const workAfterResult = ({ init, say, result }) => {
  init();
  say("First answer.");
  result({ result: "First answer." });
  say("Second thoughts.");
  result({ is_error: true, api_error_status: 500, result: "API Error: 500" });
  return 1;
};

/** Closes its standard output in the middle, lives on for `seconds`, exits 0. */
export const closeStdout = async ({ options, init, say }) => {
  init();
  say("You will not hear from me again.");
  closeSync(1);
  await delay((options.seconds ?? 0.3) * 1000);
  process.exit(0);
};

const deaf = () => {
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) {
    process.removeAllListeners(signal);
    process.on(signal, () => {});
  }
};

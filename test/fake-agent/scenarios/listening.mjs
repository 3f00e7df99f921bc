import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * Works, a step every so many ms (50), until it has been told `messages` (1) words in the middle of its turn, and `until` exists
 * if it is given.
 * Each word is a line of `heard.txt`. Says them all in the end.
 */
export const listen = async ({ options, init, say, tool, takeUp, result }) => {
  const { messages = 1, until, every = 50 } = options;
  const heard = [];
  init();
  say("I listen.");
  while (heard.length < messages || (until !== undefined && !existsSync(until))) {
    tool("Bash", { command: "make" }, "done");
    await delay(every);
    for (const text of takeUp()) {
      heard.push(text);
      appendFileSync("heard.txt", `${text}\n`);
    }
  }
  say(`Heard: ${heard.join(", ")}`);
  result({ result: `Heard: ${heard.join(", ")}` });
};

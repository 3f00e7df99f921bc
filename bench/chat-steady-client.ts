import { machineTime, readAnswer } from "./chat-client.ts";

/*
 * `chat-steady-client.ts URL STREAMS PIECES PROMPT`: reads that many answers of bench/steady-agent.pl at once (`%d` in the
 * prompt is the number of the stream) and prints as JSON what was missing or out of order, and the age of every piece.
 */
const [url = "", streams = "0", pieces = "0", prompt = ""] = process.argv.slice(2);

const ages: number[] = [];
let lost = 0;
let failed = 0;

const one = async (_: unknown, number: number): Promise<void> => {
  let next = 0;
  const onPiece = (text: string): void => {
    const now = machineTime();
    const [n, at] = text.split(":");
    if (Number(n) !== next) lost += 1;
    next += 1;
    // The first one is not paced: it shows that the agent has started.
    if (next > 1) ages.push(now - Number(at));
  };
  try {
    await readAnswer({ url, text: prompt.replace("%d", String(number)), onPiece });
  } catch (error) {
    failed += 1;
    process.stderr.write(`${String(error)}\n`);
  }
  lost += Number(pieces) - Math.min(next, Number(pieces));
};

await Promise.all(Array.from({ length: Number(streams) }, one));
process.stdout.write(
  JSON.stringify({ lost, failed, ages: ages.map((age) => Math.round(age * 1000) / 1000) }),
);

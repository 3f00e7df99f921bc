import { clock } from "../text/duration.ts";
import type { Paint } from "../text/paint.ts";

/** Writes to a terminal, and when nothing comes for a while shows on a line of its own that it waits. */
export type Waiting = { write: (text: string) => void; stop: () => void };

const patienceMs = 500;

export const showWaiting = (stream: NodeJS.WriteStream, paint: Paint): Waiting => {
  const begin = performance.now();
  let isShown = false;
  let atLineStart = true;

  const draw = (): void => {
    if (!atLineStart || process.env.TERM === "dumb") return;
    stream.write(`${erase}${paint("dim", `… ${clock(performance.now() - begin)}`)}`);
    isShown = true;
  };
  const clear = (): void => {
    if (isShown) stream.write(erase);
    isShown = false;
  };
  let timer = setInterval(draw, patienceMs);

  return {
    write: (text) => {
      if (text === "") return;
      clear();
      stream.write(text);
      atLineStart = text.endsWith("\n");
      clearInterval(timer);
      timer = setInterval(draw, patienceMs);
    },
    stop: () => {
      clearInterval(timer);
      clear();
    },
  };
};

/** To the first column, and all that is right of it away. */
const erase = "\r\u001b[K";

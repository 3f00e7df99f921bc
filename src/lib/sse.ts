/** Server-sent events, as https://html.spec.whatwg.org/multipage/server-sent-events.html writes them. */
export type ServerSentEvent = { id?: string; event?: string; data: string };

export const encodeEvent = ({ id, event, data }: ServerSentEvent): string => {
  const head = `${id === undefined ? "" : `id: ${id}\n`}${event === undefined ? "" : `event: ${event}\n`}`;
  return `${head}${data
    .split(/\r\n|\r|\n/)
    .map((line) => `data: ${line}\n`)
    .join("")}\n`;
};

export const ping = ": ping\n\n";

/**
 * The pieces of `source`, and a ping after every `everyMs` in which none came. Takes the next piece only when it is
 * asked for one. To stop it while it waits, end the source.
 */
export async function* withPing<Piece>(
  source: AsyncIterable<Piece>,
  everyMs: number,
): AsyncGenerator<Piece | typeof ping, void> {
  const iterator = source[Symbol.asyncIterator]();
  const silence = createTimer(everyMs);
  try {
    for (;;) {
      const next = iterator.next();
      let result = await Promise.race([next, silence.restart()]);
      while (result === undefined) {
        yield ping;
        result = await Promise.race([next, silence.restart()]);
      }
      if (result.done === true) return;
      yield result.value;
    }
  } finally {
    silence.stop();
    await iterator.return?.();
  }
}

/** One timer that is wound up again and again: a busy stream does not make one per event. */
const createTimer = (ms: number) => {
  let { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), ms);
  return {
    restart: (): Promise<undefined> => {
      ({ promise, resolve } = Promise.withResolvers<undefined>());
      timer.refresh();
      return promise;
    },
    stop: (): void => clearTimeout(timer),
  };
};

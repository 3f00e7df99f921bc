import { wellFormedJson } from "./well-formed.ts";

/** A server-sent event, see https://html.spec.whatwg.org/multipage/server-sent-events.html. */
export type ServerSentEvent = { id?: string; event?: string; data: string };

export const encodeEvent = ({ id, event, data }: ServerSentEvent): string => {
  const head = `${id === undefined ? "" : `id: ${id}\n`}${event === undefined ? "" : `event: ${event}\n`}`;
  return `${head}${wellFormedJson(data)
    .split(/\r\n|\r|\n/)
    .map((line) => `data: ${line}\n`)
    .join("")}\n`;
};

export const ping = ": ping\n\n";

import type { IncomingMessage } from "node:http";

export type RecordedRequest = {
  method: string;
  /** Path with query, as sent. */
  url: string;
  host: string | undefined;
  authorization: string | undefined;
  headers: IncomingMessage["headers"];
  /** Body of an API request, cut at 64 KiB; git's packs are not kept. */
  body: string;
};

export type RequestLog = {
  requests: RecordedRequest[];
  add: (request: IncomingMessage, body: string) => void;
};

const kept = 1000;

/** The newest 1000 requests. */
export const createRequestLog = (): RequestLog => {
  const requests: RecordedRequest[] = [];
  return {
    requests,
    add: (request, body) => {
      requests.push({
        method: request.method ?? "",
        url: request.url ?? "",
        host: request.headers.host,
        authorization: request.headers.authorization,
        headers: request.headers,
        body: body.slice(0, 65_536),
      });
      if (requests.length > kept) requests.shift();
    },
  };
};

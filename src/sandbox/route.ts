import type { IncomingMessage } from "node:http";
import { endToEnd } from "../lib/end-to-end.ts";
import type { DoorSettings } from "./door.ts";
import type { Meter } from "./meter.ts";
import { Refusal } from "./refusal.ts";

/** A part of the door that leads to one address of the operator's: the model, the service's receiver of telemetry. */
export type Route = {
  /** Paths that it takes, without the query. A group in it is the part that goes to the target; without one all of it. */
  paths: RegExp;
  /** Of these the requests that go there, as `POST /v1/messages`; others are refused and told. Absent: all. */
  takes?: RegExp;
  /** Where they lead: its path comes before the client's. */
  target: URL;
  /** Take the place of the client's credentials, `authorization` and `x-api-key`. Null: the client's own go there. */
  headers: Readonly<Record<string, string>> | null;
  /** Reads the answers. Absent: nothing does. */
  meter?: Meter;
};

/** Paths that no server reads in another way: without escapes, and no part begins with a dot. */
const plainPath = /^(?:\/[\w:@~-][\w.:@~-]*)+\/?$/;

/** @throws Refusal */
const routeFor = ({ routes, onDenied }: DoorSettings, method: string, path: string): Route => {
  const route = routes.find(({ paths }) => paths.test(path));
  const isPlain = plainPath.test(path);
  const wanted = `${method} ${path}`.slice(0, 200);
  if (route?.takes && !(isPlain && route.takes.test(wanted))) {
    onDenied(wanted);
    throw new Refusal(403, `No agent may ask for ${wanted}: the credential is for messages of the model`);
  }
  // Not by TRACE: its answer repeats the credential.
  if (route === undefined || !isPlain || !/^(GET|HEAD|POST|DELETE)$/.test(method))
    throw new Refusal(404, "There is nothing at this path");
  if (route.meter?.isOpen === false) throw new Refusal(403, "The agent has no turn, or no budget left");
  return route;
};

/** Where a request for a path leads. @throws Refusal */
export const toRoute = (settings: DoorSettings, asked: IncomingMessage, url: string) => {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const route = routeFor(settings, asked.method ?? "", path);
  const { meter } = route;
  const place = new URL(route.target);
  place.pathname = `${place.pathname.replace(/\/+$/, "")}${route.paths.exec(path)?.[1] ?? path}`;
  place.search = query;
  const { authorization: _a, "x-api-key": _k, ...kept } = endToEnd(asked);
  const headers = route.headers === null ? endToEnd(asked) : { ...kept, ...route.headers };
  const readable = meter && { "accept-encoding": "identity" };
  const agent = settings.proxies.of(place) ?? settings.agents[place.protocol] ?? (false as const);
  return { url: place, headers: { ...headers, ...readable, host: place.host }, how: { agent }, meter };
};

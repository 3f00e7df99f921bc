import fc from "fast-check";
import { brokenRequests, hostileValues, hugeValues, spoiltRequests, words, type Spoilt } from "./spoilt.ts";

export type Schema = {
  $ref?: string;
  anyOf?: Schema[];
  const?: unknown;
  enum?: unknown[];
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
};

type Described = {
  operationId: string;
  parameters?: { in: string; name: string; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { content?: Record<string, object> }>;
};

/** An OpenAPI document, as far as it is looked at. */
export type Document = {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
};

type Values = Record<string, unknown>;

/** What is asked, as plain data; `@` words in it stand for what `written` makes of them. */
export type Question = {
  /** Chooses the door. */
  door: number;
  method: string;
  /** As the document has it. */
  path: string;
  operationId: string;
  /** Of the path and the query. */
  parameters: Values;
  headers: Values;
  body: unknown;
  /** What is done to the request as it is sent. */
  spoilt: Spoilt;
  /** Sent instead of all that. */
  broken: string | null;
};

/** Questions about all that the document describes, most of them spoilt in one place or several. */
export const questionsAbout = (document: Document): fc.Arbitrary<Question> => {
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({
      // The chat has more to it than the others.
      weight: path.startsWith("/v1/chat/completions") ? 5 : 1,
      arbitrary: question(document, { path, method, described }),
    })),
  );
  return fc.oneof(...all);
};

type About = { path: string; method: string; described: Described };

const question = (document: Document, { path, method, described }: About): fc.Arbitrary<Question> => {
  const { operationId, parameters = [], requestBody } = described;
  const valuesIn = (isMeant: (place: string) => boolean): fc.Arbitrary<Values> => {
    const meant = parameters.filter((each) => isMeant(each.in));
    const properties = Object.fromEntries(meant.map(({ name, schema }) => [name, schema]));
    return valueOf(document, { type: "object", properties }) as fc.Arbitrary<Values>;
  };
  const body = requestBody?.content["application/json"]?.schema;
  const bodies = body === undefined ? fc.constant(undefined) : mutated(valueOf(document, body));
  const isChat = operationId === "create_chat_completion";
  return fc.record<Question>({
    door: fc.nat(),
    method: fc.constant(method),
    path: fc.constant(path),
    operationId: fc.constant(operationId),
    parameters: mutated(valuesIn((place) => place !== "header")).map((each) => (isRecord(each) ? each : {})),
    headers: valuesIn((place) => place === "header"),
    body: isChat ? rarely(60, fc.constantFrom(...hugeValues), bodies) : bodies,
    spoilt: rarely(3, fc.constantFrom(...spoiltRequests), fc.constant({})),
    broken: rarely<string | null>(100, fc.constantFrom(...brokenRequests), fc.constant(null)),
  });
};

const rarely = <Value>(times: number, rare: fc.Arbitrary<Value>, usual: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: times - 1, arbitrary: usual }, { weight: 1, arbitrary: rare });

/** Values as the schema wants them. */
const valueOf = (document: Document, schema: Schema, name = ""): fc.Arbitrary<unknown> => {
  const { $ref, anyOf, type } = schema;
  const named = document.components.schemas[$ref?.split("/").at(-1) ?? ""];
  if (named !== undefined) return valueOf(document, named, name);
  const choices = anyOf ?? (Array.isArray(type) ? type.map((each) => ({ ...schema, type: each })) : null);
  if (choices !== null) return fc.oneof(...choices.map((each) => valueOf(document, each, name)));
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  return plainValues[String(type)]?.(schema, document, name) ?? fc.jsonValue();
};

type Plain = (schema: Schema, document: Document, name: string) => fc.Arbitrary<unknown>;

const plainValues: Record<string, Plain> = {
  object: ({ properties = {}, required }, document) => {
    const fields = Object.entries(properties).map(([key, each]) => [key, valueOf(document, each, key)]);
    const record = Object.fromEntries(fields) as Record<string, fc.Arbitrary<unknown>>;
    return fc.record(record, required === undefined ? {} : { requiredKeys: required });
  },
  array: ({ items = {} }, document, name) => fc.array(valueOf(document, items, name), { maxLength: 3 }),
  string: (_, __, name) => rarely(8, fc.string(), fc.constantFrom(...(words[name] ?? ["", "x"]))),
  integer: ({ minimum: min = -10, maximum = 1000 }) => fc.integer({ min, max: Math.min(maximum, min + 10) }),
  number: ({ minimum: min = -10, maximum: max = 1000 }) => fc.double({ min, max, noNaN: true }),
  boolean: () => fc.boolean(),
  null: () => fc.constant(null),
};

const change = fc.record({
  at: fc.nat(),
  how: fc.constantFrom("replace", "replace", "remove", "add", "wrap"),
  name: rarely(2, fc.string(), fc.constantFrom("__proto__", "constructor", "tsak", "limit", "")),
  value: fc.oneof(fc.constantFrom(...hostileValues), fc.jsonValue(), fc.string({ unit: "binary" })),
});

/** The values with up to two changes each. */
const mutated = (values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.tuple(values, fc.array(change, { maxLength: 2 })).map(([value, changes]) => {
    const root: Values = { value: structuredClone(value) };
    for (const { at, how, name, value: other } of changes) {
      const places = placesIn(root);
      const { container, key } = places[at % places.length] ?? { container: root, key: "value" };
      const old = container[key];
      if (how === "remove" && container !== root) Reflect.deleteProperty(container, key);
      else if (how === "add" && isRecord(old)) define(old, name, other);
      else define(container, key, how === "wrap" ? [old] : other);
    }
    return root["value"];
  });

/** `__proto__` is a name like any other here. */
const define = (container: Values, key: string, value: unknown): void => {
  const usual = { enumerable: true, configurable: true, writable: true };
  Object.defineProperty(container, key, { value: structuredClone(value), ...usual });
};

const placesIn = (container: Values): { container: Values; key: string }[] =>
  Object.entries(container).flatMap(([key, value]) => [
    { container, key },
    ...(typeof value === "object" && value !== null ? placesIn(value as Values) : []),
  ]);

export const isRecord = (value: unknown): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value);

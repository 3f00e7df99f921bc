import { parseJson } from "../lib/well-formed.ts";

/** Reading values that another program wrote: a field of the wrong type counts as absent. */

export type Json = Record<string, unknown>;

export const objectOf = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};

export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

export const countOf = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) ? value : 0;

/** Those of the values that are texts and not empty. */
export const filled = <Name extends string>(values: Record<Name, unknown>): { [Key in Name]?: string } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => textOf(value) !== "")) as {
    [Key in Name]?: string;
  };

/** Unix time in ms, of ISO 8601 or of ms; null: none. */
export const timeOf = (value: unknown): number | null => {
  const time = typeof value === "number" ? value : Date.parse(textOf(value));
  return Number.isSafeInteger(Math.trunc(time)) ? Math.trunc(time) : null;
};

export const toTime = (at: number | null): string | null =>
  at === null || Number.isNaN(new Date(at).getTime()) ? null : new Date(at).toISOString();

/** Null when it is no JSON. */
export const parsed = (text: string): unknown => {
  try {
    return parseJson(text.startsWith("\uFEFF") ? text.slice(1) : text);
  } catch {
    return null;
  }
};

/** All texts in a value, each on its line; images and other data in base64 are left out. */
export const textsIn = (value: unknown): string => {
  const texts: string[] = [];
  collect(value, texts, 0);
  return texts.join("\n");
};

const deepest = 100;

const collect = (value: unknown, texts: string[], depth: number): void => {
  if (typeof value === "string") {
    if (value !== "" && !/^data:[^,]{0,100};base64,/.test(value)) texts.push(value);
  } else if (typeof value === "object" && value !== null && depth < deepest) {
    if ((value as Json)["type"] === "base64") return;
    for (const item of Object.values(value)) collect(item, texts, depth + 1);
  }
};

/** What blocks of a message say: their texts, and everything in blocks of other kinds. */
export const blockText = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listOf(content)
        .map((block) => {
          const { text, type: _, ...rest } = objectOf(block);
          return typeof block === "string" ? block : typeof text === "string" ? text : textsIn(rest);
        })
        .filter((text) => text !== "")
        .join("\n");

/**
 * Unix time of an instant of the contract, ms; null for an empty text. Without an offset it is UTC. A date is its first
 * moment, or its last one as the end of a time.
 */
export const instantOf = (
  text: string,
  edge: "start of day" | "end of day" = "start of day",
): number | null => {
  if (text === "") return null;
  if (!text.includes("T")) return Date.parse(text) + (edge === "start of day" ? 0 : 86_400_000 - 1);
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`);
};

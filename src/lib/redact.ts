/** Replaces every secret in a text by `***`. */
export type Redact = (text: string) => string;

/**
 * Secrets shorter than six characters are left alone: they would blank out ordinary words. A secret of several lines
 * (a PEM key) is hidden line by line too, since logs and JSON escape the line breaks.
 */
export const createRedactor = (secrets: readonly string[]): Redact => {
  const parts = secrets.flatMap((secret) => [secret, ...secret.split(/\r?\n/)]);
  const needles = [...new Set(parts.filter((part) => part.length >= 6 && !/^-+[A-Z ]+-+$/.test(part)))];
  if (needles.length === 0) return (text) => text;
  const pattern = new RegExp(
    needles
      .toSorted((a, b) => b.length - a.length)
      .map(escape)
      .join("|"),
    "g",
  );
  return (text) => text.replace(pattern, "***");
};

/** The same for every string inside a JSON-like value. */
export const redactDeep = <Value>(value: Value, redact: Redact): Value => {
  if (typeof value === "string") return redact(value) as Value;
  if (Array.isArray(value)) return value.map((item) => redactDeep(item, redact)) as Value;
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([key, item]) => [redact(key), redactDeep(item, redact)]);
  return Object.fromEntries(entries) as Value;
};

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

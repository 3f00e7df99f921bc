/** Replaces every secret in a text by `***`. */
export type Redact = (text: string) => string;

export type Redactor = Redact & {
  /** How many characters at the end of a text may be the beginning of a secret. */
  unfinished: (text: string) => number;
  /** Hides one more secret, until it has expired. */
  add: (secret: string, expiresAt: Date) => void;
};

/**
 * Hides secrets as they are, as they are in JSON and in URLs, and as the password that git sends. Secrets shorter than six
 * characters are ignored: they would hide ordinary words. A secret of several lines (a PEM key) is hidden line by line, too,
 * since logs and JSON escape line breaks.
 */
export const createRedactor = (secrets: readonly string[]): Redactor => {
  const added = new Map<string, Date>();
  let masks = masksOf(secrets);
  return Object.assign((text: string) => masks.hide(text), {
    unfinished: (text: string) => masks.unfinished(text),
    add: (secret: string, expiresAt: Date) => {
      for (const [known, end] of added) if (end.getTime() < Date.now()) added.delete(known);
      added.set(secret, expiresAt);
      masks = masksOf([...secrets, ...added.keys()]);
    },
  });
};

const masksOf = (secrets: readonly string[]) => {
  const parts = secrets.flatMap((secret) => [...formsOf(secret), ...secret.split(/\r?\n/)]);
  const needles = [...new Set(parts.filter((part) => part.length >= 6 && !/^-+[A-Z ]+-+$/.test(part)))];
  if (needles.length === 0) return { hide: (text: string) => text, unfinished: () => 0 };
  const pattern = new RegExp(
    needles
      .toSorted((a, b) => b.length - a.length)
      .map(escape)
      .join("|"),
    "g",
  );
  return { hide: (text: string) => text.replace(pattern, "***"), unfinished: beginnings(needles) };
};

const beginnings = (needles: readonly string[]): Redactor["unfinished"] => {
  const byFirst = Map.groupBy(needles, (needle) => needle.charAt(0));
  const longest = Math.max(...needles.map((needle) => needle.length));
  return (text) => {
    for (let at = Math.max(0, text.length - longest + 1); at < text.length; at += 1) {
      const end = text.slice(at);
      if (byFirst.get(text.charAt(at))?.some((needle) => needle.startsWith(end))) return end.length;
    }
    return 0;
  };
};

const maxDepth = 100;

/** Redacts every string in a JSON-like value. Cuts what is nested too deeply, which could overflow the stack. */
export const redactDeep = <Value>(value: Value, redact: Redact, depth = 0): Value => {
  if (typeof value === "string") return redact(value) as Value;
  if (value === null || typeof value !== "object") return value;
  if (depth === maxDepth) return `[… cut: nested more than ${maxDepth} levels deep …]` as Value;
  const inner = (item: unknown): unknown => redactDeep(item, redact, depth + 1);
  if (Array.isArray(value)) return value.map(inner) as Value;
  const entries = Object.entries(value).map(([key, item]) => [redact(key), inner(item)]);
  return Object.fromEntries(entries) as Value;
};

const formsOf = (secret: string): string[] =>
  secret.length < 6
    ? []
    : [
        secret,
        JSON.stringify(secret).slice(1, -1),
        encodeURIComponent(secret.toWellFormed()),
        Buffer.from(`x-access-token:${secret}`).toString("base64").replace(/=+$/, ""),
      ];

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

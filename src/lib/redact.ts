/** Replaces every secret in a text by `***`. */
export type Redact = (text: string) => string;

export type Redactor = Redact & {
  /** How many characters at the end of a text may be the beginning of a secret. */
  unfinished: (text: string) => number;
  /** Hides one more secret, until it has expired; in base64, too. */
  add: (secret: string, expiresAt: Date) => void;
};

/**
 * Hides secrets as they are, in JSON, in URLs, and as the password that git sends; one of several lines also line by line,
 * since logs escape line breaks. Those shorter than six characters would hide ordinary words.
 */
export const createRedactor = (secrets: readonly string[]): Redactor => {
  const own = secrets.flatMap(plainForms);
  const added = new Map<string, { expiresAt: Date; forms: readonly string[] }>();
  /** Null: made at the next use, once for all secrets that came since the last one. */
  let masks: ReturnType<typeof masksOf> | null = null;
  const current = () => (masks ??= masksOf([...own, ...[...added.values()].flatMap(({ forms }) => forms)]));
  const forgetExpired = (): void => {
    for (const [secret, { expiresAt }] of added) if (expiresAt.getTime() < Date.now()) added.delete(secret);
  };
  return Object.assign((text: string) => current().hide(text), {
    unfinished: (text: string) => current().unfinished(text),
    add: (secret: string, expiresAt: Date) => {
      const known = added.get(secret);
      if (known !== undefined) return void (known.expiresAt = expiresAt);
      forgetExpired();
      added.set(secret, { expiresAt, forms: [...plainForms(secret), ...formsOf(secret)] });
      masks = null;
    },
  });
};

/** What agents have in the place of values is of no use elsewhere, and hidden by its shape. */
export const placeholderBeginning = "svc_placeholder_";
const placeholder = `${placeholderBeginning}[0-9a-f]{40}`;

const masksOf = (parts: readonly string[]) => {
  const needles = [...new Set(parts.filter((part) => part.length >= 6 && !/^-+[A-Z ]+-+$/.test(part)))];
  const longestFirst = needles.toSorted((a, b) => b.length - a.length).map(escape);
  const pattern = new RegExp([...longestFirst, placeholder].join("|"), "g");
  return { hide: (text: string) => text.replace(pattern, "***"), unfinished: beginnings(needles) };
};

const beginnings = (needles: readonly string[]): Redactor["unfinished"] => {
  const byFirst = Map.groupBy(needles, (needle) => needle.charAt(0));
  const longest = Math.max(0, ...needles.map((needle) => needle.length));
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

const plainForms = (secret: string): string[] =>
  secret.length < 6
    ? []
    : [
        secret,
        ...secret.split(/\r?\n/),
        JSON.stringify(secret).slice(1, -1),
        encodeURIComponent(secret.toWellFormed()),
        Buffer.from(`x-access-token:${secret}`).toString("base64").replace(/=+$/, ""),
      ];

/** A secret as it is, and as JSON, URLs and base64 write it, whatever stands around it there. */
export const formsOf = (secret: string): string[] => [...wholeForms(secret), ...brokenForms(secret).flat()];

/** Each has all of the secret. */
export const wholeForms = (secret: string): string[] => {
  const text = secret.trim();
  return text.length < 6
    ? []
    : [
        text,
        JSON.stringify(text).slice(1, -1),
        encodeURIComponent(text.toWellFormed()),
        new URLSearchParams([["", text]]).toString().slice(1),
        ...([0, 1, 2] as const).flatMap((before) => inBase64(text, before)),
      ];
};

/** Its base64, from the beginning of a line, as lines that programs break it into. */
export const brokenForms = (secret: string): string[][] =>
  inBase64(secret.trim(), 0).flatMap((whole) =>
    whole.length > base64Line ? [whole.match(new RegExp(`.{8,${base64Line}}`, "g")) ?? []] : [],
  );

const base64Line = 76;

/**
 * What base64 makes of a text that has so many bytes before it (0 to 2, of each three), without the characters at its ends
 * that other text decides, too; also as URLs have it.
 */
const inBase64 = (text: string, before: 0 | 1 | 2): string[] => {
  const bytes = Buffer.byteLength(text);
  const whole = Buffer.from(`${"-".repeat(before)}${text}`)
    .toString("base64")
    .slice(before === 0 ? 0 : before + 1, Math.floor(((before + bytes) * 8) / 6));
  return whole.length < 8 ? [] : [whole, whole.replaceAll("+", "-").replaceAll("/", "_")];
};

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

import { hash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import type { Session } from "../contract/transcript.ts";
import type { Redact } from "../lib/redact.ts";
import { abridged } from "./answer-size.ts";
import { entriesFrom, entryCount } from "./entry-pages.ts";
import type { Library } from "./library.ts";
import type { Embed } from "./models.ts";
import type { Passage, Vectors } from "./vectors.ts";

type Question = { query: string; project: string; limit: number; exclude: readonly string[] };
type Near = {
  session_id: string;
  chunk_idx: number;
  project: string;
  timestamp: string | null;
  score: number;
};

type Dependencies = {
  library: Library;
  /** The model sees this: secrets are masked. */
  masked: Library;
  mask: Redact;
  embed: Embed;
  vectors: Vectors;
  now: () => number;
};

/** Texts in one request, and how long one search makes vectors of sessions that have none, ms. */
const batch = 64;
const makeForMs = 20_000;

/**
 * Search by meaning. Vectors are made when they are first needed, the newest sessions first. `hint`: some sessions have none
 * yet.
 */
export const createSemanticSearch =
  ({ library, masked, mask, embed, vectors, now }: Dependencies) =>
  async ({ query, project, limit, exclude }: Question, signal: AbortSignal) => {
    const [asked] = await embedded(embed, [mask(query)], signal);
    if (asked === undefined) throw new ServiceError("model_failed", "The model has no vector for the query");
    const sessions = await allSessions(library, project);
    if (project === "") vectors.retain(sessions.map(({ session_id }) => session_id));
    const candidates = sessions.filter(({ session_id }) => !exclude.includes(session_id));
    const revisions = vectors.revisions(embed.model);
    const outdated = candidates.filter((one) => revisions.get(one.session_id) !== revisionOf(one));
    const deadline = now() + makeForMs;
    let left = outdated.length;
    for (const session of outdated) {
      if (now() >= deadline) break;
      await makeVectors(session, { masked, embed, vectors, signal });
      left -= 1;
    }
    const projects = new Map(candidates.map(({ session_id, project_path }) => [session_id, project_path]));
    const near: Near[] = [];
    for (const { session_id, passages } of vectors.all(embed.model)) {
      const path = projects.get(session_id);
      if (path === undefined) continue;
      const scored = passages.map(({ position: chunk_idx, timestamp, vector }) => ({
        session_id,
        chunk_idx,
        project: path,
        timestamp,
        score: product(asked, vector),
      }));
      near.push(...scored.toSorted(byScore).slice(0, 1));
      // Other requests are answered in between.
      await nextTurn();
    }
    return {
      passages: near
        .toSorted(byScore)
        .slice(0, limit)
        .map((found) => ({ ...found, text: textAt(library, found.session_id, found.chunk_idx) })),
      hint:
        left === 0
          ? null
          : `${left} of ${candidates.length} sessions are not searched yet: ask again, each call prepares more of them`,
    };
  };

export type SemanticSearch = ReturnType<typeof createSemanticSearch>;

const listed = 50;

const allSessions = async (library: Library, project: string): Promise<Session[]> => {
  const sessions: Session[] = [];
  for (let count = listed; count === listed; await nextTurn()) {
    const page = { project, limit: listed, offset: sessions.length, updatedSince: 0 };
    count = sessions.push(...library.listSessions(page).items) - page.offset;
  }
  return sessions;
};

const byScore = (a: { score: number }, b: { score: number }): number => b.score - a.score;

/** Vectors of length 1. */
const embedded = async (embed: Embed, texts: string[], signal: AbortSignal): Promise<Float32Array[]> => {
  const made: Float32Array[] = [];
  for (let at = 0; at < texts.length; at += batch)
    for (const vector of await embed.vectors(texts.slice(at, at + batch), signal)) {
      const length = Math.hypot(...vector) || 1;
      made.push(Float32Array.from(vector, (value) => value / length));
    }
  return made;
};

type Making = Pick<Dependencies, "masked" | "embed" | "vectors"> & { signal: AbortSignal };

/** A passage whose text is unchanged keeps its vector. */
const makeVectors = async (session: Session, { masked, embed, vectors, signal }: Making): Promise<void> => {
  const { session_id: id } = session;
  const passages: Text[] = [];
  for (const passage of passagesOf(masked, id)) if (passages.push(passage) % batch === 0) await nextTurn();
  const known = new Map(vectors.passagesOf(id, embed.model).map(({ digest, vector }) => [digest, vector]));
  const fresh = passages.filter(({ digest }) => !known.has(digest));
  const made = await embedded(
    embed,
    fresh.map(({ text }) => text),
    signal,
  );
  fresh.forEach(({ digest }, at) => known.set(digest, made[at] ?? new Float32Array()));
  vectors.replace(id, {
    model: embed.model,
    revision: revisionOf(session),
    passages: passages.map(({ position, timestamp, digest }): Passage => {
      return { position, timestamp, digest, vector: known.get(digest) ?? new Float32Array() };
    }),
  });
};

/** Changes when the session grows. */
const revisionOf = (session: Session): string => JSON.stringify({ ...session, title: "", summary: "" });

type Text = Omit<Passage, "vector"> & { text: string };

/** Characters: what usual embedding models take in any language. */
const passageCharacters = 4000;

/** A user's entry with the answers that follow it, as far as they have room; then the next passage begins. */
function* passagesOf(library: Library, id: string): Generator<Text, void> {
  let open: { position: number; timestamp: string | null; text: string } | null = null;
  let position = 0;
  const close = ({ text, ...rest }: NonNullable<typeof open>): Text => ({
    ...rest,
    text,
    digest: hash("sha256", text, "base64"),
  });
  for (const entry of entriesFrom(library, id, { from: 0, to: entryCount(library, id) })) {
    const text = abridged(`${entry.entry_type}: ${entry.content}`, passageCharacters);
    if (
      open !== null &&
      (entry.entry_type === "user" || open.text.length + text.length > passageCharacters)
    ) {
      yield close(open);
      open = null;
    }
    if (entry.content.trim() !== "" && entry.inherited !== true)
      open = {
        ...(open ?? { position, timestamp: entry.timestamp }),
        text: open === null ? text : `${open.text}\n\n${text}`,
      };
    position += 1;
  }
  if (open !== null) yield close(open);
}

const textAt = (library: Library, id: string, position: number): string =>
  [...entriesFrom(library, id, { from: position, to: position + 1 })].map(({ content }) => content).join("");

const product = (a: Float32Array, b: Float32Array): number => {
  if (a.length !== b.length) return -2;
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
};

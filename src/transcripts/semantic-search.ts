import { setImmediate as nextTurn } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import type { Session } from "../contract/transcript.ts";
import type { Redact } from "../lib/redact.ts";
import type { Library } from "./library.ts";
import type { Embed } from "./models.ts";
import { passagesOf, textAt, type Passage } from "./passages.ts";
import type { StoredPassage, Vectors } from "./vectors.ts";

type Question = { query: string; project: string; limit: number; exclude: readonly string[] };
type Found = {
  session_id: string;
  chunk_idx: number;
  project: string;
  timestamp: string | null;
  text: string;
  score: number;
};

/** `hint`: some sessions have no vectors yet. */
export type SemanticSearch = (
  question: Question,
  signal: AbortSignal,
) => Promise<{ passages: Found[]; hint: string | null }>;

type Dependencies = {
  /** What is shown. */
  library: Library;
  /** What the model sees: secrets are masked. */
  masked: Library;
  mask: Redact;
  embed: Embed;
  vectors: Vectors;
  now: () => number;
};

/** Texts in one request, and how long one search makes vectors of sessions that have none, ms. */
const batch = 64;
const makeForMs = 20_000;

/** Search by meaning. Vectors are made when they are first needed, the newest sessions first. */
export const createSemanticSearch = ({
  library,
  masked,
  mask,
  embed,
  vectors,
  now,
}: Dependencies): SemanticSearch => {
  const embedded = async (texts: string[], signal: AbortSignal): Promise<Float32Array[]> => {
    const made: Float32Array[] = [];
    for (let at = 0; at < texts.length; at += batch)
      made.push(...(await embed.vectors(texts.slice(at, at + batch), signal)).map(unit));
    return made;
  };

  const makeVectors = async (session: Session, signal: AbortSignal): Promise<void> => {
    const { session_id: id } = session;
    const passages: Passage[] = [];
    for (const passage of passagesOf(masked, id)) {
      passages.push(passage);
      if (passages.length % batch === 0) await nextTurn();
    }
    const kept = vectors.vectorsOf(id, embed.model);
    const fresh = passages.filter(({ digest }) => !kept.has(digest));
    const made = await embedded(
      fresh.map(({ text }) => text),
      signal,
    );
    fresh.forEach(({ digest }, index) => kept.set(digest, made[index] ?? new Float32Array()));
    const stored = passages.map(({ position, timestamp, digest }: Passage): StoredPassage => {
      const vector = kept.get(digest) ?? new Float32Array();
      return { position, timestamp, digest, vector };
    });
    vectors.replace(id, { model: embed.model, revision: revisionOf(session, embed.model), passages: stored });
  };

  return async ({ query, project, limit, exclude }, signal) => {
    const [asked] = await embedded([mask(query)], signal);
    if (asked === undefined) throw new ServiceError("model_failed", "The model has no vector for the query");
    const sessions = await allSessions(library, project);
    if (project === "") {
      const ids = new Set(sessions.map(({ session_id }) => session_id));
      vectors.retain((id) => ids.has(id));
    }
    const candidates = sessions.filter(({ session_id }) => !exclude.includes(session_id));
    const outdated = candidates.filter(
      (session) => vectors.revisionOf(session.session_id) !== revisionOf(session, embed.model),
    );
    const deadline = now() + makeForMs;
    let made = 0;
    for (; made < outdated.length && now() < deadline; made += 1) {
      const session = outdated[made];
      if (session !== undefined) await makeVectors(session, signal);
    }
    const projects = new Map(candidates.map(({ session_id, project_path }) => [session_id, project_path]));
    const among = (id: string): boolean => projects.has(id);
    const near = await vectors.nearest(asked, { model: embed.model, among, limit });
    const left = outdated.length - made;
    return {
      passages: near.map(({ position, ...rest }) => ({
        ...rest,
        chunk_idx: position,
        project: projects.get(rest.session_id) ?? "",
        text: textAt(library, rest.session_id, position),
      })),
      hint:
        left === 0
          ? null
          : `${left} of ${candidates.length} sessions are not searched yet: ask again, each call prepares more of them`,
    };
  };
};

const listed = 50;

const allSessions = async (library: Library, project: string): Promise<Session[]> => {
  const sessions: Session[] = [];
  for (;;) {
    const { items } = library.listSessions({
      project,
      limit: listed,
      offset: sessions.length,
      updatedSince: 0,
    });
    sessions.push(...items);
    if (items.length < listed) return sessions;
    // Other requests are answered in between.
    await nextTurn();
  }
};

/** Changes when the session grows, and with the model. */
const revisionOf = (session: Session, model: string): string =>
  JSON.stringify([
    model,
    session.start_time,
    session.last_update,
    session.num_user_turns,
    session.num_assistant_turns,
    session.num_tool_calls,
    session.total_tokens,
  ]);

const unit = (vector: readonly number[]): Float32Array => {
  const length = Math.hypot(...vector) || 1;
  return Float32Array.from(vector, (value) => value / length);
};

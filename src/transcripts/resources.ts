import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { maskSecrets } from "../lib/secret-shapes.ts";
import { answerBytes, cutText } from "./answer-size.ts";
import { auditLine } from "./audit.ts";
import type { Library } from "./library.ts";
import { maskedLibrary } from "./masked-library.ts";
import { sessionText } from "./session-text.ts";

type Dependencies = { library: Library; redact: boolean; log: Log };

const mimeType = "text/markdown";
const pageSize = 100;

/** Sessions, plans and memory files as MCP resources. */
export const transcriptResources = ({ library: collected, redact, log }: Dependencies) => {
  const library = redact ? maskedLibrary(collected, maskSecrets) : collected;

  const pages = {
    sessions: (offset: number) => {
      const filter = { project: "", limit: pageSize, offset, updatedSince: 0 };
      return library.listSessions(filter).items.map(({ session_id, title, summary, project_path }) => ({
        uri: `session://${encodeURIComponent(session_id)}`,
        name: title || summary || session_id,
        description: project_path,
        mimeType,
      }));
    },
    plans: (offset: number) => {
      const filter = { project: "", codename: "", limit: pageSize, offset, agentPlans: true };
      return library.plans(filter).items.map(({ codename, project_path, file_size_bytes }) => ({
        uri: `plan://${encodeURIComponent(codename)}`,
        name: codename,
        description: project_path,
        mimeType,
        size: file_size_bytes,
      }));
    },
    memory: (offset: number) =>
      library
        .memoryFiles("")
        .slice(offset, offset + pageSize)
        .map(({ project_encoded, project_path, filename, file_size_bytes }) => ({
          uri: `memory://${encodeURIComponent(project_encoded)}/${encodeURIComponent(filename)}`,
          name: filename,
          description: project_path || project_encoded,
          mimeType,
          size: file_size_bytes,
        })),
  };
  type Kind = keyof typeof pages;
  const after: Record<Kind, Kind | null> = { sessions: "plans", plans: "memory", memory: null };

  const textOf = (uri: string): string | null => {
    const [, scheme, first = "", second] =
      /^(session|plan|memory):\/\/([^/?#]+)(?:\/([^/?#]+))?$/.exec(uri) ?? [];
    if ((second !== undefined) !== (scheme === "memory")) return null;
    const name = decoded(first);
    if (scheme === "session") {
      const session = library.session(name);
      return session && sessionText(library, session, { last: 1000, room: answerBytes }).text;
    }
    const document = scheme === "plan" ? library.plan(name) : library.memoryFile(name, decoded(second ?? ""));
    return document && cutText(document.content, answerBytes);
  };

  return {
    scope: "read",
    templates: [
      { uriTemplate: "session://{id}", name: "session", title: "The last entries of a session", mimeType },
      { uriTemplate: "plan://{codename}", name: "plan", title: "A plan", mimeType },
      { uriTemplate: "memory://{project}/{filename}", name: "memory", title: "A memory file", mimeType },
    ],
    list: (cursor: string) => {
      const [, kind = "", offset = ""] =
        /^(sessions|plans|memory):(\d{1,9})$/.exec(cursor || "sessions:0") ?? [];
      if (kind === "")
        throw new ServiceError(
          "invalid_request",
          "The cursor is none of this list; ask again without a cursor",
        );
      const resources = pages[kind as Kind](Number(offset));
      const next = after[kind as Kind];
      if (resources.length === pageSize)
        return { resources, nextCursor: `${kind}:${Number(offset) + pageSize}` };
      return { resources, nextCursor: next === null ? null : `${next}:0` };
    },
    read: (uri: string, principal: string) => {
      const text = textOf(uri);
      if (text === null) return null;
      log.info(auditLine("resources/read", { principal }, { given: { uri }, answer: {} }), "read");
      return { mimeType, text };
    },
  };
};

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

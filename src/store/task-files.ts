import { z } from "zod";
import { TaskFiles as Files, type TaskFile } from "../contract/run-options.ts";
import { isJobId } from "./job-record.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

/** A part of the files' JSON text, and the number of parts. */
type Piece = { text: string; pieces: number };

/** Each command has a time limit: in one, 25 MiB would fail on a slow connection or a busy machine. Characters. */
const pieceLength = 1_000_000;

/** Files of a job, apart from its record, which is read and written often: `{prefix:j}:files:{job_id}.{n}`, or files. */
export const taskFilesKind: Kind<Piece> = {
  noun: "job's files",
  key: "files",
  isId: (id) => isJobId(id.slice(0, 36)) && /^\.\d+$/.test(id.slice(36)),
  parse: parseWith(z.object({ text: z.string(), pieces: z.int() })),
};

/** The files that were submitted with jobs. Rejects with `ServiceError("store_unavailable")`. */
export const createTaskFiles = (records: Records<Piece>) => ({
  /** All of them, or none. */
  put: async (jobId: string, files: TaskFile[]): Promise<void> => {
    const json = JSON.stringify(files);
    const pieces = Math.ceil(json.length / pieceLength);
    const change = (n: number, piece: Piece | null) => records.change(`${jobId}.${n}`, () => piece);
    try {
      // The first one last: without it there are none.
      for (let n = pieces - 1; n >= 0; n -= 1)
        await change(n, { text: json.slice(n * pieceLength, (n + 1) * pieceLength), pieces });
    } catch (error) {
      for (let n = 0; n < pieces; n += 1) await change(n, null).catch(() => undefined);
      throw error;
    }
  },
  /** Null: there are none. */
  get: async (jobId: string): Promise<TaskFile[] | null> => {
    const texts: string[] = [];
    for (let [n, pieces] = [0, 1]; n < pieces; n += 1) {
      const piece = await records.get(`${jobId}.${n}`);
      if (piece === null) return null;
      texts.push(piece.text);
      ({ pieces } = piece);
    }
    return Files.parse(JSON.parse(texts.join("")));
  },
  remove: async (jobId: string): Promise<void> => {
    for (let n = 0; (await records.change(`${jobId}.${n}`, () => null)).changed; n += 1);
  },
});

export type TaskFiles = ReturnType<typeof createTaskFiles>;

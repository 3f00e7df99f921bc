import { createNarration } from "../view/narration.ts";
import type { Client } from "../client/client.ts";
import type { Job } from "../contract/job.ts";

/** Jobs that are followed at once; the others on the screen show no line. */
const most = 4;

/** The last thing that each of a few running jobs did. */
export const createLiveLines = (redraw: () => void) => {
  const followed = new Map<string, AbortController>();
  const lines = new Map<string, string>();

  const follow = async (client: Client, { id, created_at }: Job, signal: AbortSignal): Promise<void> => {
    const narration = createNarration(Date.parse(created_at));
    for await (const event of client.events(id, { signal, patienceMs: 0 })) {
      const done = narration.add(event);
      const row = narration.openRow() ?? done.findLast(({ text }) => text !== "");
      if (row === undefined) continue;
      lines.set(id, row.text.slice(-500));
      redraw();
    }
  };

  return {
    of: (id: string): string | null => lines.get(id) ?? null,
    /** Follows the first of these, and no others. */
    follow: (client: Client, jobs: readonly Job[], signal: AbortSignal): void => {
      const wanted = new Map(jobs.slice(0, most).map((job) => [job.id, job]));
      for (const [id, connection] of followed) {
        if (wanted.has(id)) continue;
        connection.abort();
        followed.delete(id);
        lines.delete(id);
      }
      for (const [id, job] of wanted) {
        if (followed.has(id)) continue;
        const connection = new AbortController();
        followed.set(id, connection);
        void follow(client, job, AbortSignal.any([signal, connection.signal]))
          // A connection that breaks is opened again the next time.
          .catch(() => undefined)
          .finally(() => {
            if (followed.get(id) === connection) followed.delete(id);
          });
      }
    },
  };
};

import type { Job } from "../../contract/job.ts";
import { effortFacts, factLines, optional, outcomeFacts, profile, resultFacts } from "./job-facts.ts";
import type { Layout } from "./job-facts.ts";

type Options = Layout & { clone: string | null };

/** The block at the end of `svc run --wait`. */
export const summary = (job: Job, { clone, ...layout }: Options): string =>
  factLines(
    [
      ["Job", job.id],
      ...outcomeFacts(job, layout.paint),
      ["Profile", profile(job)],
      ...resultFacts(job, clone),
      // What --session-id takes, to go on where this job ended.
      ["Session", optional(job.session_id)],
      ...effortFacts(job),
    ],
    layout,
  ).join("\n");

import type { Job } from "../../contract/job.ts";
import { effortFacts, factLines, outcomeFacts, resultFacts } from "./job-facts.ts";
import type { Paint } from "./paint.ts";

type Options = { paint: Paint; clone: string | null };

/** The block at the end of `svc run --wait`. */
export const summary = (job: Job, { paint, clone }: Options): string =>
  factLines(
    [["Job", job.id], ...outcomeFacts(job, paint), ...resultFacts(job, clone), ...effortFacts(job)],
    paint,
  ).join("\n");

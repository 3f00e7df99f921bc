import { z } from "zod";

/** Body of `GET /health`: the process is up. Public. */
export const Health = z.object({ status: z.literal("ok"), service: z.string() }).meta({ id: "Health" });
export type Health = z.infer<typeof Health>;

/** Body of `GET /ready`: 200 when new jobs are taken, else 503. Public. */
export const Readiness = z
  .object({
    ready: z.boolean(),
    reasons: z.array(z.string()).meta({ description: "What is missing, a sentence each" }),
  })
  .meta({ id: "Readiness" });
export type Readiness = z.infer<typeof Readiness>;

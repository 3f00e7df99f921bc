import type { Client } from "../../client/client.ts";
import { views } from "../../view/views.ts";
import type { Layout } from "../../view/paint.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { rememberJob, resolveJobId } from "../job-id.ts";
import type { Asked } from "../operation-commands.ts";
import { printAnswer } from "../print.ts";
import { fromHere } from "./input.ts";

/** A command that is one call: asks the service, and prints the answer in the view of the operation. */
export const ask = async ({ name, input, flags }: Asked): Promise<ExitCode> => {
  const { client } = connect();
  // Operation, method and view fit each other by name, which the compiler cannot see in a lookup.
  const call = client[name as "list_jobs"] as (given: object) => Promise<{ job?: { id: string } }>;
  const view = views[name as keyof typeof views] as ((body: object, layout: Layout) => string) | undefined;
  const body = await call(await resolved(client, input));
  if (body.job !== undefined) await rememberJob(body.job.id);
  return printAnswer(body, flags["json"] === true || view === undefined, view ?? (() => ""));
};

/** The input with words of the shell replaced by what the service knows. */
const resolved = async (client: Client, input: Asked["input"]): Promise<Asked["input"]> => {
  const { job_id: job, worktree_id: worktree, repo_url: repository } = input;
  return {
    ...input,
    ...(typeof job === "string" && { job_id: await resolveJobId(client, job) }),
    ...(typeof worktree === "string" && { worktree_id: await resolveJobId(client, worktree) }),
    ...(typeof repository === "string" && { repo_url: fromHere(repository) }),
  };
};

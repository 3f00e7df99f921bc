import { rename } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../until.ts";
import { newJob, otherJob, type Row, type Scene } from "./scene.ts";

const task = "do it";
const unknownJob = () => ({ input: { job_id: "../../etc/passwd" } });

/** The job whose agent does not end, with its worktree and the file that names the owner of it. */
const atWork = async ({ roomy }: Scene): Promise<{ id: string; directory: string; owner: string }> => {
  const [job] = (await roomy.client.list_jobs({ status: "running" })).jobs;
  const directory = String(job?.worktree_path);
  return {
    id: String(job?.id),
    directory,
    owner: join(directory, "..", ".owned", `${job?.worktree_id}.json`),
  };
};

/** A message to a job that waits. */
const said = async ({ roomy, submitted }: Scene) => {
  const job_id = await submitted();
  const { message } = await roomy.client.message_job({ job_id, text: "Mind the tests" });
  return { job_id, message_id: message?.id ?? "" };
};

/** A message that an agent has taken up, which works on. */
const heard = async ({ asking: { client } }: Scene) => {
  const { id } = (await client.run_task({ task: 'scenario: listen {"messages": 2}' })).job;
  const { message } = await client.message_job({ job_id: id, text: "Mind the tests" });
  await until(async () => (await client.get_job({ job_id: id })).job.messages[0]?.status === "taken", {
    what: "the agent to hear it",
  });
  return { job_id: id, message_id: message?.id ?? "" };
};

export const jobRows = (scene: () => Scene): Row[] => [
  { operation: "run_task", outcome: "success", question: () => ({ input: { task } }), varies: newJob },
  {
    operation: "run_task",
    outcome: "success",
    // A flag of the command, which takes no objects.
    question: () => ({ input: { task, options: { must_pass: true } as never } }),
    varies: newJob,
  },
  {
    operation: "run_task",
    outcome: "invalid_request",
    question: () => ({ input: { task, session_id: "mine" } }),
  },
  {
    operation: "run_task",
    outcome: "invalid_repo_url",
    question: () => ({ input: { task, repo_url: "ext::sh -c id" } }),
  },
  { operation: "run_task", outcome: "invalid_ref", question: () => ({ input: { task, base_ref: "a..b" } }) },
  {
    operation: "run_task",
    outcome: "unknown_profile",
    question: () => ({ input: { task, profile: "nobody" } }),
  },
  {
    operation: "run_task",
    outcome: "attachment_type",
    // Doors with JSON take objects; the command is not asked.
    question: () => ({ input: { task, options: { files: [{ name: "a.png", content: "text" }] } as never } }),
  },
  {
    operation: "run_task",
    outcome: "invalid_profile",
    question: () => ({ input: { task, profile: "broken" } }),
  },
  {
    operation: "run_task",
    outcome: "worktree_not_found",
    question: () => ({ input: { task, worktree_id: "gone" } }),
  },
  {
    operation: "run_task",
    outcome: "worktree_not_ready",
    service: () => scene().clogged,
    question: async () => ({ input: { task, worktree_id: await scene().unready() } }),
  },
  {
    operation: "run_task",
    outcome: "disk_full",
    service: () => scene().crowded,
    question: () => ({ input: { task } }),
    // The message has the free space.
    varies: ["error"],
  },
  {
    operation: "run_task",
    outcome: "idempotency_conflict",
    question: async () => {
      await scene().roomy.client.run_task({ task: "another" }, { idempotencyKey: "once" });
      return { input: { task }, idempotencyKey: "once" };
    },
  },
  {
    operation: "run_task",
    outcome: "invalid_request",
    question: () => ({ input: { task, session_id: "00000000-0000-4000-8000-000000000000" } }),
  },
  {
    operation: "run_task",
    outcome: "no_model_credential",
    question: () => ({ input: { task } }),
    service: () => scene().poor,
  },
  {
    operation: "run_task",
    outcome: "queue_full",
    question: () => ({ input: { task } }),
    service: () => scene().full,
  },
  {
    operation: "run_task",
    outcome: "draining",
    service: () => scene().draining,
    question: async () => {
      await scene().drain();
      return { input: { task } };
    },
  },
  {
    operation: "run_task",
    outcome: "store_unavailable",
    question: async () => {
      await scene().loseStore();
      return { input: { task } };
    },
    after: () => scene().findStore(),
  },
  {
    operation: "get_job",
    outcome: "success",
    question: async () => ({ input: { job_id: await scene().submitted() } }),
  },
  { operation: "get_job", outcome: "job_not_found", question: unknownJob },
  {
    operation: "get_job",
    outcome: "success",
    question: async () => ({ input: { job_id: `service/${(await scene().submitted()).slice(0, 8)}` } }),
  },
  {
    operation: "get_job",
    outcome: "ambiguous_id",
    question: () => ({ input: { job_id: "abcd" } }),
  },
  {
    operation: "list_jobs",
    outcome: "success",
    question: async () => {
      await scene().roomy.client.cancel_job({ job_id: await scene().submitted() });
      await scene().roomy.client.cancel_job({ job_id: await scene().submitted() });
      return { input: { limit: 1, status: "cancelled" } };
    },
  },
  { operation: "list_jobs", outcome: "success", question: () => ({ input: { limit: 1, status: "all" } }) },
  {
    operation: "list_jobs",
    outcome: "success",
    question: async () => {
      const { client } = scene().roomy;
      const session = (await client.list_jobs({ status: "running" })).jobs[0]?.session_id;
      const input = { task, session_id: String(session) };
      await client.cancel_job({ job_id: (await client.run_task(input)).job.id });
      return { input: { limit: 1, status: "cancelled", session_id: String(session) } };
    },
  },
  {
    operation: "list_jobs",
    outcome: "success",
    question: async () => {
      await scene().submitted();
      const input = { status: "active", profile: "code", since: "2026-01-01", q: "QUEUE wait", limit: 1 };
      return { input };
    },
  },
  { operation: "list_jobs", outcome: "success", question: () => ({ input: { repo_url: "acme/app" } }) },
  { operation: "list_jobs", outcome: "invalid_request", question: () => ({ input: { cursor: "nowhere" } }) },
  {
    operation: "cancel_job",
    outcome: "success",
    question: async () => ({ input: { job_id: await scene().submitted() } }),
  },
  { operation: "cancel_job", outcome: "job_not_found", question: unknownJob },
  {
    operation: "cancel_job",
    outcome: "store_unavailable",
    question: async () => {
      const job_id = await scene().submitted();
      await scene().loseStore();
      return { input: { job_id } };
    },
    after: () => scene().findStore(),
  },
  {
    operation: "message_job",
    outcome: "success",
    question: async () => ({ input: { job_id: await scene().submitted(), text: "Mind the tests" } }),
    varies: newJob,
  },
  {
    operation: "message_job",
    outcome: "invalid_request",
    question: async () => ({ input: { job_id: await scene().submitted(), text: "a", when: "soon" } }),
  },
  {
    operation: "message_job",
    outcome: "job_not_found",
    question: () => ({ input: { ...unknownJob().input, text: "Mind the tests" } }),
  },
  {
    operation: "message_job",
    outcome: "idempotency_conflict",
    question: async () => {
      const job_id = await scene().submitted();
      await scene().roomy.client.message_job({ job_id, text: "another" }, { idempotencyKey: "said" });
      return { input: { job_id, text: "Mind the tests" }, idempotencyKey: "said" };
    },
  },
  {
    operation: "message_job",
    outcome: "nothing_to_continue",
    question: async () => {
      const job_id = await scene().submitted();
      await scene().roomy.client.cancel_job({ job_id });
      return { input: { job_id, text: "Mind the tests" } };
    },
  },
  {
    operation: "message_job",
    outcome: "store_unavailable",
    question: async () => {
      const job_id = await scene().submitted();
      await scene().loseStore();
      return { input: { job_id, text: "Mind the tests" } };
    },
    after: () => scene().findStore(),
  },
  {
    operation: "take_back_message",
    outcome: "success",
    question: async () => ({ input: await said(scene()) }),
  },
  {
    operation: "take_back_message",
    outcome: "job_not_found",
    question: () => ({ input: { ...unknownJob().input, message_id: "7c2f1f0e" } }),
  },
  {
    operation: "take_back_message",
    outcome: "message_not_found",
    question: async () => ({ input: { job_id: await scene().submitted(), message_id: "7c2f1f0e" } }),
  },
  {
    operation: "take_back_message",
    outcome: "message_taken",
    service: () => scene().asking,
    question: async () => ({ input: await heard(scene()) }),
  },
  {
    operation: "take_back_message",
    outcome: "store_unavailable",
    question: async () => {
      const input = await said(scene());
      await scene().loseStore();
      return { input };
    },
    after: () => scene().findStore(),
  },
  {
    operation: "answer_job",
    outcome: "success",
    service: () => scene().asking,
    anew: true,
    question: async () => ({ input: { job_id: await scene().asked(), text: "SQLite" } }),
    varies: otherJob,
  },
  {
    operation: "answer_job",
    outcome: "invalid_request",
    service: () => scene().asking,
    question: async () => ({ input: { job_id: await scene().asked(), approve: true } }),
  },
  {
    operation: "answer_job",
    outcome: "question_changed",
    service: () => scene().asking,
    question: async () => ({ input: { job_id: await scene().asked(), id: "before", text: "SQLite" } }),
  },
  {
    operation: "answer_job",
    outcome: "not_waiting",
    question: async () => ({ input: { job_id: await scene().submitted(), text: "SQLite" } }),
  },
  {
    operation: "answer_job",
    outcome: "job_not_found",
    question: () => ({ input: { ...unknownJob().input, text: "SQLite" } }),
  },
  {
    operation: "answer_job",
    outcome: "store_unavailable",
    service: () => scene().asking,
    question: async () => {
      const job_id = await scene().asked();
      await scene().loseStore("jobs", scene().asking);
      return { input: { job_id, text: "SQLite" } };
    },
    after: () => scene().findStore("jobs", scene().asking),
  },
  {
    operation: "get_diff",
    outcome: "success",
    question: async () => ({ input: { job_id: (await atWork(scene())).id } }),
  },
  { operation: "get_diff", outcome: "job_not_found", question: unknownJob },
  {
    operation: "get_diff",
    outcome: "invalid_request",
    question: async () => ({ input: { job_id: (await atWork(scene())).id, repository: "elsewhere" } }),
  },
  {
    operation: "get_diff",
    outcome: "change_not_found",
    question: async () => {
      const { id, owner } = await atWork(scene());
      await rename(owner, `${owner}-away`);
      return { input: { job_id: id } };
    },
    after: async () => {
      const { owner } = await atWork(scene());
      await rename(`${owner}-away`, owner);
    },
  },
  {
    operation: "get_diff",
    outcome: "worktree_failed",
    question: async () => {
      const { id, directory } = await atWork(scene());
      await rename(directory, `${directory}-away`);
      return { input: { job_id: id } };
    },
    after: async () => {
      const { directory } = await atWork(scene());
      await rename(`${directory}-away`, directory);
    },
  },
  {
    operation: "list_files",
    outcome: "success",
    question: async () => ({ input: { job_id: await scene().submitted() } }),
  },
  { operation: "list_files", outcome: "job_not_found", question: unknownJob },
  { operation: "list_profiles", outcome: "success", question: () => ({ input: {} }) },
  {
    operation: "wait_for_job",
    outcome: "success",
    question: async () => {
      const job_id = await scene().submitted();
      await scene().roomy.client.cancel_job({ job_id });
      return { input: { job_id, timeout: 10 } };
    },
  },
  { operation: "wait_for_job", outcome: "job_not_found", question: unknownJob },
];

export const instanceRows = (scene: () => Scene): Row[] => [
  {
    operation: "get_usage",
    outcome: "success",
    question: () => ({ input: { by: "profile", since: "2026-01-01", profile: "code" } }),
  },
  {
    operation: "get_usage",
    outcome: "invalid_request",
    question: () => ({ input: { since: "2026-03-02", until: "2026-03-01" } }),
  },
  {
    operation: "get_usage",
    outcome: "store_unavailable",
    service: () => scene().crowded,
    question: () => ({ input: {} }),
  },
  { operation: "sync_companions", outcome: "success", question: () => ({ input: { target: "hub" } }) },
  {
    operation: "list_instances",
    outcome: "success",
    question: async () => {
      // What an instance says about itself follows what it does by some seconds.
      await until(async () => (await scene().roomy.client.list_instances()).instances[0]?.running === 1);
      return { input: {} };
    },
    varies: ["oldest_wait_seconds"],
  },
];

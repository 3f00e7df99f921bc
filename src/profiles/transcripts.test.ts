import { symlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { jobId, setup } from "./profiles.fixture.ts";

it("a transcript is found by its session in whichever project it lies, the newest of several", async () => {
  const state = await setup({
    [`shared/projects/-a/${jobId}.jsonl`]: "old",
    [`shared/projects/-b/${jobId}.jsonl`]: "new",
    "shared/projects/stray": "",
  });
  await utimes(join(state.shared, `projects/-a/${jobId}.jsonl`), 1000, 1000);
  expect(await state.profiles.findTranscript(jobId)).toBe(join(state.shared, `projects/-b/${jobId}.jsonl`));
});

it("there is none before the first session, for an unknown session, or behind a link", async () => {
  const state = await setup({ "shared/secret.jsonl": "" });
  expect(await state.profiles.findTranscript(jobId)).toBeNull();
  await state.write({ "shared/projects/-a/other.jsonl": "" });
  await symlink(join(state.shared, "secret.jsonl"), join(state.shared, `projects/-a/${jobId}.jsonl`));
  expect(await state.profiles.findTranscript(jobId)).toBeNull();
});

it.each(["", "../secret", "*", `../${jobId}`, `${jobId}\n`, "secret"])("%j is no session", async (id) => {
  const state = await setup({
    "shared/projects/-a/secret.jsonl": "",
    [`shared/projects/${jobId}.jsonl`]: "",
  });
  expect(await state.profiles.findTranscript(id)).toBeNull();
});

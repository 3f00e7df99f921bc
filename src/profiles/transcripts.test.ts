import { mkdir, rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { jobId, setup } from "./profiles.fixture.ts";

const cwd = "/srv/work.trees/one";
const own = "shared/projects/-srv-work-trees-one";

it("a transcript is found where its session began, and no newer one of that name elsewhere", async () => {
  const state = await setup({
    [`shared/projects/-srv-work-trees-two/${jobId}.jsonl`]: "planted",
    [`shared/projects/${jobId}.jsonl`]: "planted",
  });
  expect(await state.profiles.findTranscript(jobId, cwd)).toBeNull();
  await state.write({ [`${own}/${jobId}.jsonl`]: "own", [`${own}-more/${jobId}.jsonl`]: "planted" });
  const path = join(state.shared, "projects/-srv-work-trees-one", `${jobId}.jsonl`);
  expect(await state.profiles.findTranscript(jobId, cwd)).toBe(path);
});

it("there is none before the first session, for an unknown session, or behind a link", async () => {
  const state = await setup({ "shared/secret.jsonl": "" });
  expect(await state.profiles.findTranscript(jobId, cwd)).toBeNull();
  await state.write({ [`${own}/other.jsonl`]: "" });
  const project = join(state.shared, "projects/-srv-work-trees-one");
  await symlink(join(state.shared, "secret.jsonl"), join(project, `${jobId}.jsonl`));
  expect(await state.profiles.findTranscript(jobId, cwd)).toBeNull();
  await rename(project, join(state.shared, "moved"));
  await mkdir(join(state.shared, "outside"));
  await state.write({ [`shared/outside/${jobId}.jsonl`]: "" });
  await symlink(join(state.shared, "outside"), project);
  expect(await state.profiles.findTranscript(jobId, cwd)).toBeNull();
});

it.each(["", "../secret", "*", `../${jobId}`, `${jobId}\n`, "secret"])("%j is no session", async (id) => {
  const state = await setup({
    [`${own}/secret.jsonl`]: "",
    [`shared/projects/${jobId}.jsonl`]: "",
  });
  expect(await state.profiles.findTranscript(id, cwd)).toBeNull();
});

import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { toolNames } from "../../src/contract/operations.ts";
import { asks } from "../asks.ts";
import { accessibilityFaults, openBrowser } from "../browser.ts";
import { svc } from "../cli/run-svc.ts";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { openPage } from "../web/open-page.ts";

/* What an agent leaves in .svc/out: kept with its job, and brought by every door. */

const home = await temporaryDirectory();
const [service, remote] = await Promise.all([startService({ home }), makeRemote()]);
const ask = asks(service);
const kept = join(home, ".service", "jobs", "out");
const env = { SERVICE_PORT: new URL(service.url).port, HOME: await temporaryDirectory() };

const shell = (run: string, more = {}): string => `scenario: shell ${JSON.stringify({ run, ...more })}`;
const job = await ask.run({
  task: shell(
    `mkdir -p '.svc/out/a b'; cd .svc/out; printf '<script>1</script>' > 'a b/ü%2F.html'; echo x > report.txt; ln -s /etc/passwd link; echo y > ../../work.txt`,
  ),
  repo_url: remote.path,
});
const name = "a b/ü%2F.html";

test("its files are in the job, not in its commit; a link is named in its warnings", async () => {
  expect(job).toMatchObject({ status: "succeeded", outcome: "changed", diff_stat: { files: 1 } });
  const files = [
    { path: name, bytes: 18 },
    { path: "report.txt", bytes: 2 },
  ];
  expect(job.files).toEqual(files);
  expect(job.warnings.join()).toContain(
    "Not kept of .svc/out, because it is no file, or no plain path: link",
  );
  expect(await service.client.list_files({ job_id: job.id.slice(0, 8) })).toEqual({
    success: true,
    job_id: job.id,
    files,
  });
  // An agent that calls tools has no use for bytes.
  expect(toolNames).not.toContain("list_files");
});

test("REST sends them as downloads, by the paths of the job alone", async () => {
  const get = (path: string, init?: RequestInit) =>
    fetch(`${service.url}/jobs/${job.id}/files/${path}`, init);
  for (const path of ["a%20b/%C3%BC%252F.html", "a%20b%2F%C3%BC%252F.html"]) {
    const answer = await get(path);
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "application/octet-stream",
      "content-disposition": "attachment; filename*=UTF-8''%C3%BC%252F.html",
      "content-length": "18",
      "x-content-type-options": "nosniff",
    });
    expect(await answer.text()).toBe("<script>1</script>");
  }
  const head = await get("report.txt", { method: "HEAD" });
  expect([head.status, head.headers.get("content-length")]).toEqual([200, "2"]);
  for (const path of ["link", "..%2F..%2Fstate", "%2Fetc%2Fpasswd", "a%20b", "a%20b/%25C3%25BC"]) {
    const answer = await get(path);
    expect([path, answer.status, await answer.json()]).toMatchObject([path, 404, { code: "file_not_found" }]);
  }
  expect(await (await get("report.txt/")).text()).toBe("x\n");
  expect((await get("report.txt//")).status).toBe(404);
  expect((await get("..%2F..%2F..%2Fready")).status).toBe(404);
  expect((await fetch(`${service.url}/jobs/0000/files/report.txt`)).status).toBe(404);
});

test("svc lists them, and writes them without replacing what is there", async () => {
  const cwd = await temporaryDirectory();
  const run = (...args: string[]) => svc(["files", job.id.slice(0, 8), ...args], { env, cwd });
  expect((await run()).stdout).toMatch(/SIZE +PATH\n.*18 B +a b\/ü%2F\.html\n.*2 B +report\.txt/);
  expect(JSON.parse((await run("--json")).stdout)).toMatchObject({ job_id: job.id, files: job.files });
  expect(await run(name)).toMatchObject({ code: 0 });
  expect(await readFile(join(cwd, "ü%2F.html"), "utf8")).toBe("<script>1</script>");
  await writeFile(join(cwd, "report.txt"), "mine\n");
  const refused = await run("report.txt");
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining("report.txt exists") });
  expect(await readFile(join(cwd, "report.txt"), "utf8")).toBe("mine\n");
  expect(await run("report.txt", "--force")).toMatchObject({ code: 0 });
  expect(await readFile(join(cwd, "report.txt"), "utf8")).toBe("x\n");
  expect(await run("report.txt", "-o", "-")).toMatchObject({ code: 0, stdout: "x\n" });
  expect(await run("report.txt", "-o", "no/such")).toMatchObject({ code: 1 });
  expect(await run("missing")).toMatchObject({ code: 1, stderr: expect.stringContaining("has no file") });
  expect((await svc(["job", job.id], { env })).stdout).toMatch(/Files +2 files, 20 B/);
});

test("the page downloads them", async () => {
  await using browser = await openBrowser();
  const { page, faults } = await openPage(browser, service, `/ui/jobs/${job.id}?pane=output`);
  const coming = page.waitForEvent("download");
  await page.getByRole("button", { name: "report.txt" }).click();
  const download = await coming;
  expect(download.suggestedFilename()).toBe("report.txt");
  expect(await readFile(await download.path(), "utf8")).toBe("x\n");
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(faults).toEqual([]);
});

test("of a job that is cancelled, fails or may only read they are kept, too", async () => {
  const task = shell("mkdir -p .svc/out; echo x > .svc/out/report.txt", { stays: true });
  const { id } = await ask.submit({ task, repo_url: remote.path });
  await ask.speaking(id);
  await service.client.cancel_job({ job_id: id });
  const cancelled = await ask.when(id, ({ files }) => files.length > 0, "to have its file");
  expect(cancelled).toMatchObject({ status: "cancelled", files: [{ path: "report.txt", bytes: 2 }] });
  const reading = await ask.run({ task: shell("mkdir -p .svc/out; echo x > .svc/out/a"), profile: "review" });
  expect(reading).toMatchObject({ status: "succeeded", files: [{ path: "a", bytes: 2 }] });
  expect(reading.warnings.join()).not.toContain("discarded");
});

test("a link in that place fails the job and is named; too much is left out and named", async () => {
  const linked = await ask.run({
    task: shell("mkdir .svc; ln -s /etc .svc/out; echo x > work.txt"),
    repo_url: remote.path,
  });
  expect(linked).toMatchObject({ status: "failed", failure_reason: "worktree_failed", files: [] });
  expect(linked.error).toContain(`${linked.worktree_path}/.svc/out is a link`);
  expect(linked.salvage_ref).not.toBeNull();
  const much = await ask.run({
    task: shell("mkdir -p .svc/out; cd .svc/out; truncate -s 30M a b; echo x > c"),
  });
  expect(much.files.map(({ path }) => path)).toEqual(["a", "c"]);
  expect(much.warnings.join()).toContain("because it has more than 50 MiB or 1000 files: b");
  const bytes = await (await service.client.file(much.id, "a")).arrayBuffer();
  expect(bytes.byteLength).toBe(30 * 1024 * 1024);
});

test("what is not on this disk is where the job ran", async () => {
  const { id } = await ask.run({ task: shell("mkdir -p .svc/out; echo x > .svc/out/a") });
  expect(existsSync(join(kept, id, "a"))).toBe(true);
  await rm(join(kept, id), { recursive: true });
  await mkdir(join(kept, id, "a"), { recursive: true });
  await expect(service.client.file(id, "a")).rejects.toThrow(
    /on the disk of the instance .+: ask that instance/,
  );
});

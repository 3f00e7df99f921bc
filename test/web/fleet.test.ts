import { mkdir, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { accessibilityFaults, accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { worktreeAsks } from "../worktrees/worktree-world.ts";
import { openPage } from "./open-page.ts";

/* The page of instances, worktrees, disk, profiles and companions, in a real browser, with the real service. */

const home = await temporaryDirectory();
const profiles = join(home, ".service", "profiles");
await mkdir(profiles, { recursive: true });
await writeFile(join(profiles, "broken.yml"), "- a list");
const [remote, hooks, browser] = await Promise.all([makeRemote(), makeRemote(), openBrowser()]);
const service = await startService({ home, env: { SERVICE_HOOKS_URL: hooks.path } });
const { prepare } = worktreeAsks(service);
const clean = await prepare(remote.path);
const unpushed = await prepare(remote.path);
await writeFile(join(unpushed.path, "work.txt"), "not pushed");

test("it shows the queue, instances, profiles with their faults, and companions, which a button syncs", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/fleet");
  const instance = page
    .getByRole("table", { name: "Queue and instances" })
    .getByRole("row", { name: "test-pod" });
  await instance.getByText("0 of").waitFor();
  await instance.getByText(service.url).waitFor();
  const broken = page.getByRole("table", { name: "Profiles" }).getByRole("row", { name: "broken" });
  await broken.getByText("must hold").waitFor();
  await page.getByRole("button", { name: "Sync hooks" }).click();
  await page.getByRole("status").getByText("ok", { exact: true }).waitFor();
  await page.getByText("fetched <1 min ago").waitFor();
  for (const name of ["Worktrees", "Disk by repository"]) await page.getByRole("table", { name }).waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  expect(faults).toEqual([]);
});

test("it shows the worktrees of all pages of the list, and when each was measured", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/");
  const asked: string[] = [];
  await page.route(/\/worktrees\?/, async (route, request) => {
    asked.push(request.url());
    await route.continue({ url: request.url().replace("limit=1000", "limit=1") });
  });
  await page.goto(`${service.url}/ui/fleet`);
  await page.getByRole("region", { name: "Worktrees" }).getByText("2 worktrees,").waitFor();
  expect(asked.length).toBeGreaterThan(1);
  const rows = page.getByRole("table", { name: "Worktrees" }).getByRole("row");
  // The newest comes first.
  for (const [nth, { branch }] of [unpushed, clean].entries())
    await rows
      .nth(nth + 1)
      .getByText(branch)
      .waitFor();
  await rows.nth(1).locator("[data-name=Measured] time").waitFor();
  expect(faults).toEqual([]);
});

test("a secret is set, shown without its value, and removed", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/fleet");
  await page.getByRole("button", { name: "Set a secret" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name of the variable").fill("NPM_TOKEN");
  await dialog.getByLabel("Repositories").fill("acme/app");
  await dialog.getByLabel("Hosts").fill("npm.acme.example, other.example");
  await dialog.getByLabel("Branches").fill("release/*");
  await dialog.getByLabel("Who gets it").selectOption({ label: "The agent" });
  // It gets no plain value, and has no branches.
  expect(await dialog.getByRole("checkbox").count()).toBe(0);
  expect(await dialog.getByLabel("Branches").count()).toBe(0);
  await dialog.getByLabel("Who gets it").selectOption({ label: "Commands of a setup" });
  await dialog.getByRole("checkbox").check();
  await dialog.getByLabel("Value").fill("canary-0123456789");
  expect(await accessibilityFaults(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Store the secret" }).click();
  await dialog.getByRole("alert").getByText("must begin with the host").waitFor();
  await dialog.getByLabel("Repositories").fill("github.com/acme/app");
  await dialog.getByRole("button", { name: "Store the secret" }).click();
  const secrets = page.getByRole("table", { name: "Secrets" });
  await secrets.getByText("plain, npm.acme.example, other.example on release/*").waitFor();
  expect(await page.content()).not.toContain("canary-0123456789");
  await secrets.getByRole("button", { name: "Remove NPM_TOKEN" }).click();
  await dialog.getByRole("button", { name: "Remove the secret" }).click();
  await page.getByText("No secrets").waitFor();
  // The browser says that the first try was refused.
  expect(faults.filter((fault) => !fault.includes("400"))).toEqual([]);
});

test("clean-up shows what would go and what stays and why, then removes only that; forced, work would be saved first", async () => {
  const { page } = await openPage(browser, service, "/ui/fleet");
  await page.getByRole("combobox", { name: "Choose worktrees" }).selectOption("all");
  await page.getByRole("button", { name: "Clean up 2" }).click();
  const dialog = page.getByRole("dialog");
  const entry = (path: string) => dialog.getByRole("listitem").filter({ hasText: path });
  await entry(clean.path).getByText("goes").waitFor();
  await entry(unpushed.path).getByText("stays").waitFor();
  await entry(unpushed.path).getByText("push").waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(existsSync(clean.path)).toBe(true);
  await dialog.getByRole("button", { name: "Remove 1 worktree" }).click();
  await dialog.getByRole("heading", { name: "Cleaned up" }).waitFor();
  expect([existsSync(clean.path), existsSync(unpushed.path)]).toEqual([false, true]);
  await dialog.getByRole("button", { name: "Close", exact: true }).click();
  await page.getByRole("button", { name: "Clean up 1" }).click();
  await dialog.getByRole("checkbox").check();
  await entry(unpushed.path).getByText("goes").waitFor();
  await entry(unpushed.path).getByText("refs/service/salvage/").waitFor();
  await dialog.getByRole("button", { name: "Keep all" }).click();
  expect(existsSync(unpushed.path)).toBe(true);
});

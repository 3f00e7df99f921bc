import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLocalLocks } from "../store/locks.ts";
import { until } from "../../test/until.ts";
import { plainGit } from "./plain-git.fixture.ts";
import { fetchInto, makeRepos, makeRemote } from "./repos.fixture.ts";
import type { TakeLease } from "./git-context.ts";

const unreachable = (): Promise<never> => Promise.reject(new Error("connection refused"));

test("a fetch waits for a lease of another instance, and runs when it is released", async () => {
  const remote = await makeRemote();
  const locks = createLocalLocks();
  const asked: string[] = [];
  const takeLease: TakeLease = (name) => {
    asked.push(name);
    return locks.take(name);
  };
  const { repos, settings } = await makeRepos({}, process.env, takeLease);
  const key = repos.keyOf(repos.parseUrl(remote.url));
  const other = await locks.take(`repo ${key}`);
  const fetched = fetchInto(repos, remote.url);
  await until(() => asked.length > 1 || null, { what: "the lease to be asked for again" });
  await other?.release();
  expect((await fetched).gitDir).toContain(settings.reposRoot);
  expect(new Set(asked)).toEqual(new Set([`repo ${key}`]));
  expect(await locks.take(`repo ${key}`)).not.toBeNull();
});

test("a lease that is not released in time and an unreachable store each end the attempt with an error of their own", async () => {
  const remote = await makeRemote();
  const held = await makeRepos({ repoLockTimeout: 1 }, process.env, async () => null);
  await expect(fetchInto(held.repos, remote.url)).rejects.toMatchObject({
    name: "RepoError",
    reason: "clone_failed",
    retryable: true,
    message: expect.stringContaining("was in use by others for 1 s") as string,
  });
  const cutOff = await makeRepos({ repoLockTimeout: 1 }, process.env, unreachable);
  await expect(fetchInto(cutOff.repos, remote.url)).rejects.toMatchObject({
    name: "RepoError",
    retryable: true,
    message: expect.stringContaining("while the key-value store is unreachable") as string,
  });
});

test("a fetch waits for a store that is unreachable for a moment", async () => {
  const remote = await makeRemote();
  const never = new AbortController().signal;
  let asked = 0;
  const takeLease: TakeLease = async () => {
    asked += 1;
    return asked < 3 ? unreachable() : { release: async () => undefined, lost: never };
  };
  const { repos } = await makeRepos({}, process.env, takeLease);
  expect((await fetchInto(repos, remote.url)).key).toHaveLength(12);
  expect(asked).toBe(3);
});

test("git is stopped when the lease is lost while it runs, and nothing is left half done", async () => {
  const remote = await makeRemote();
  const lost = new AbortController();
  let released = 0;
  const takeLease: TakeLease = async () => ({
    lost: lost.signal,
    release: async () => void (released += 1),
  });
  const { repos, settings } = await makeRepos({}, process.env, takeLease);
  const repo = await fetchInto(repos, remote.url);
  const before = await plainGit(repo.gitDir, "rev-parse", "origin/main");
  await remote.commit({ "a.txt": "1\n" });
  const directory = await temporaryDirectory();
  const { path, started } = await endlessFetch(directory);
  const slow = await makeRepos(settings, { ...process.env, PATH: path }, takeLease);
  const fetching = fetchInto(slow.repos, remote.url);
  const ended = fetching.then(
    () => null,
    (error: unknown) => error,
  );
  const pid = await until(() => readFile(started, "utf8").catch(() => ""), { what: "git to run" });
  lost.abort(new Error("the lease has lapsed"));
  expect(await ended).toMatchObject({
    name: "RepoError",
    retryable: true,
    message: expect.stringContaining("lost its lock") as string,
  });
  expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH");
  expect(await plainGit(repo.gitDir, "rev-parse", "origin/main")).toBe(before);
  expect(released).toBe(2);
});

/** A PATH on which a fetch by git never ends, and the file that it writes its pid to. */
const endlessFetch = async (directory: string): Promise<{ path: string; started: string }> => {
  const path = String(process.env["PATH"]);
  const started = join(directory, "started");
  const script = `#!/bin/sh\ncase " $* " in *" fetch "*) printf $$ > "${started}.new"; mv "${started}.new" "${started}"; exec sleep 600;; esac\nPATH="${path}" exec git "$@"\n`;
  await writeFile(join(directory, "git"), script, { mode: 0o755 });
  return { path: `${directory}:${path}`, started };
};

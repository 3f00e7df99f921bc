import fc from "fast-check";
import { expect, test } from "vitest";
import { parseRepoUrl } from "../contract/repository-url.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never, plainGit } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeRepos } from "./repos.fixture.ts";
import { repoKey } from "./url.ts";

const parse = (url: string): string => parseRepoUrl(url, { allowLocal: true });

const host = fc.domain().filter((name) => /^[a-z0-9.-]+$/.test(name));
const segment = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,20}$/);
const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const hosted = fc.oneof(
  fc.tuple(host, path).map(([name, rest]) => `https://${name}/${rest}`),
  fc.tuple(host, path).map(([name, rest]) => `ssh://git@${name}/${rest}`),
  fc.tuple(host, path).map(([name, rest]) => `git@${name}:${rest}`),
);

test("the key is the same with .git or a slash at the end and whatever the case of the host, and of 12 hex digits", () => {
  fc.assert(
    fc.property(hosted, (url) => {
      const key = repoKey(parse(url));
      expect(key).toMatch(/^[0-9a-f]{12}$/);
      expect(repoKey(parse(`${url}.git`))).toBe(key);
      expect(repoKey(parse(`${url}/`))).toBe(key);
      expect(repoKey(parse(`${url}.git/`))).toBe(key);
      const shouted = url.replace(
        /^(https:\/\/|ssh:\/\/git@|git@)([^/:]+)/,
        (_all, start: string, name: string) => start + name.toUpperCase(),
      );
      expect(repoKey(parse(shouted))).toBe(key);
    }),
  );
});

test("of two local paths, with and without .git, each has a key of its own: both may exist", () => {
  for (const path of ["/a/app", "file:///a/app"]) {
    expect(repoKey(parse(`${path}.git`))).not.toBe(repoKey(parse(path)));
    expect(repoKey(parse(`${path}/`))).toBe(repoKey(parse(path)));
  }
});

test("a local repository that no job can be fetched from is refused with what to do, in whatever form it is there", async () => {
  const { repos } = await makeRepos();
  const refusal = (url: string): Promise<string | null> =>
    repos.checkLocalRepository(repos.parseUrl(url)).then(
      () => null,
      (error: unknown) => String(error),
    );
  const place = await temporaryDirectory();
  const remote = await makeRemote({ "README.md": "1\n", "a.txt": "1\n" });
  await remote.commit({ "a.txt": "2\n" });
  const file = ["-c", "protocol.file.allow=always"];
  await plainGit(remote.url, "config", "uploadpack.allowFilter", "true");
  const clone = (name: string, ...options: string[]) =>
    plainGit(place, ...file, "clone", "--quiet", ...options, `file://${remote.url}`, name);
  await clone("shallow", "--depth=1");
  await plainGit(`${place}/shallow`, "worktree", "add", "--quiet", `${place}/linked`);
  await clone("partial", "--filter=blob:none", "--no-checkout");
  await clone("partial.git", "--filter=blob:none", "--bare");
  await clone("whole", "--filter=blob:limit=1m");
  await clone("treeless", "--filter=tree:0");
  await plainGit(place, "init", "--quiet", "--object-format=sha256", "other");
  await plainGit(place, "init", "--quiet", "--bare", "--object-format=sha256", "other-bare.git");
  for (const name of ["shallow", "linked"])
    expect(await refusal(`${place}/${name}`)).toMatch(/is shallow.*git fetch --unshallow/);
  for (const url of [
    `${place}/partial`,
    `file://${place}/p%61rtial`,
    `${place}/partial.git`,
    `${place}/treeless`,
  ])
    expect(await refusal(url)).toMatch(/is a partial clone .*git fetch --refetch --no-filter/);
  for (const name of ["other", "other-bare", "other-bare.git"])
    expect(await refusal(`${place}/${name}`)).toMatch(/has SHA-256 ids/);
  expect(await refusal(`file://${place}/%6fther`)).toMatch(/has SHA-256 ids/);
  expect(await refusal(`file://${place}/s%68allow`)).toMatch(/is shallow/);
  expect(await refusal(`file://${place}/not%20there`)).toMatch(/There is no git repository at/);
  expect(await refusal(`${place}/whole`)).toBeNull();
  expect(await refusal(remote.url)).toBeNull();
  // What the advice says helps.
  await plainGit(`${place}/partial`, ...file, "fetch", "--quiet", "--refetch", "--no-filter");
  expect(await refusal(`${place}/partial`)).toBeNull();
});

test("a remote whose ids are SHA-256 is refused at the submission, and by whoever fetches it", async () => {
  const { repos } = await makeRepos();
  const place = await temporaryDirectory();
  await plainGit(place, "init", "--quiet", "--object-format=sha256", "--initial-branch=main", "other");
  const path = `${place}/other`;
  await plainGit(
    path,
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@localhost",
    "commit",
    "--quiet",
    "--allow-empty",
    "--message=x",
  );
  await expect(repos.baseLeftOut(path)).rejects.toThrow(/has SHA-256 ids/);
  await expect(fetchInto(repos, path)).rejects.toThrow(/has SHA-256 ids/);
  // Only a push tells the format of a remote without commits.
  const tried: (string | null)[] = [];
  for (const format of ["sha1", "sha256"]) {
    await plainGit(place, "init", "--quiet", "--bare", `--object-format=${format}`, format);
    const worktree = await addTo(repos, await fetchInto(repos, `${place}/${format}`), format);
    tried.push(await repos.tryPush(worktree, never).catch(String));
  }
  expect(tried).toEqual([null, expect.stringMatching(/has SHA-256 ids.*\nWhat to do: Give a copy/)]);
});

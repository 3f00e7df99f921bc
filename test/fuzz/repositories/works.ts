import { chmod, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { inside } from "../../../src/repos/path-bytes.ts";
import { write } from "../../../src/repos/plain-git.fixture.ts";
import { bytesOf, entryAt, type Evidence } from "./evidence.ts";
import { bigContent, pointerOf, type Base, type Place } from "./place.ts";

/**
 * A piece of honest work. Those of a lower rank are done first: what moves HEAD (0), a merge that is not ended (1), files
 * (2), the index (3). `name`: a directory for it alone. `variant`: a number that chooses among its forms.
 */
export type Work = {
  rank: 0 | 1 | 2 | 3;
  base?: Base;
  make: (place: Place, own: { name: string; variant: number }) => Promise<Evidence[]>;
};

const oddNames = [
  ..." leading|trailing |-dash|--upload-pack=x|:(exclude)x|:!x|*|?[a]|quote\"d|a'b|back\\slash|new\nline|tab\tx|$(touch x)|`x`".split(
    "|",
  ),
  ..."HEAD|refs|index|.gitkeep|a.lock|@|#hash|%2e%2e|~|con.|~1|a~1b|ünï|e\u0301|\u202erlo|\u2028|.git.|.gitx|git~x|node_modules".split(
    "|",
  ),
  "n".repeat(250),
].map(bytesOf);

/** One that is no UTF-8. */
const names = [...oddNames, "\xff\xfe\x80", "caf\xe9"];

const put = async (place: Place, path: string, content: string | Buffer): Promise<Evidence> => {
  const file = inside(place.path, path);
  await mkdir(dirname(file.toString("latin1")), { recursive: true });
  await writeFile(file, content);
  return entryAt(place.path, path);
};

const change =
  (path: string, content: string): Work["make"] =>
  async (place) => [await put(place, path, content)];

const commit = async ({ path, git }: Place, file: string): Promise<Evidence> => {
  await write(path, { [file]: `committed as ${file}\n` });
  await git("add", "--", file);
  await git("commit", "--quiet", "--message", `work ${file}`);
  return { is: "commit", id: await git("rev-parse", "HEAD") };
};

const noise =
  (make: (place: Place) => Promise<unknown>): Work["make"] =>
  (place) =>
    make(place).then(() => []);

/** Work that moves HEAD, and what else commits hold. */
const heads: Record<string, Work["make"]> = {
  "a commit": async (place, { name }) => [await commit(place, `${name}/a.txt`)],
  "two commits": async (place, { name }) => [
    await commit(place, `${name}/a.txt`),
    await commit(place, `${name}/b.txt`),
  ],
  "a branch that was left": async (place, { name }) => {
    const before = await place.git("rev-parse", "HEAD");
    await place.git("checkout", "--quiet", "-b", `aside/${name}`);
    const made = await commit(place, `${name}/a.txt`);
    await place.git("checkout", "--quiet", "--detach", before);
    return [made];
  },
  "another branch": async (place, { name }) => {
    await place.git("checkout", "--quiet", "-b", `other-${name}`);
    return [await commit(place, `${name}/a.txt`)];
  },
  "a commit on no branch": async (place, { name }) => {
    await place.git("checkout", "--quiet", "--detach");
    return [await commit(place, `${name}/a.txt`)];
  },
  "a commit on no branch that was left": async (place, { name }) => {
    await place.git("checkout", "--quiet", "--detach");
    const made = await commit(place, `${name}/a.txt`);
    await place.git("checkout", "--quiet", place.worktree.branch);
    return [made];
  },
  "a stash": async (place) => {
    await write(place.path, { "src/b.txt": "stashed\n" });
    await place.git("stash");
    return [{ is: "commit", id: await place.git("rev-parse", "refs/stash") }];
  },
  "a stash of new files": async (place, { name }) => {
    await write(place.path, { [`${name}/a.txt`]: "stashed\n" });
    await place.git("stash", "--include-untracked", "--", name);
    return [{ is: "commit", id: await place.git("rev-parse", "refs/stash") }];
  },
  "a tag": async (place, { name }) => {
    await place.git("checkout", "--quiet", "--detach");
    const made = await commit(place, `${name}/a.txt`);
    await place.git("tag", "--annotate", "--message", "mine", `tag-${name}`);
    await place.git("checkout", "--quiet", place.worktree.branch);
    return [made];
  },
  "a ref of its own": async (place, { name }) => {
    await place.git("checkout", "--quiet", "--detach");
    const made = await commit(place, `${name}/a.txt`);
    await place.git("update-ref", `refs/worktree/${name}`, "HEAD");
    await place.git("checkout", "--quiet", place.worktree.branch);
    return [made];
  },
  "a merge": async (place, { name }) => {
    const before = await place.git("rev-parse", "HEAD");
    const one = await commit(place, `${name}/a.txt`);
    await place.git("checkout", "--quiet", "-b", `merged-${name}`, before);
    const other = await commit(place, `${name}/b.txt`);
    if (one.is === "commit") await place.git("merge", "--quiet", "--no-edit", one.id);
    return [one, other];
  },
  "a history of its own": async (place, { name }) => {
    await place.git("checkout", "--quiet", "--orphan", `orphan-${name}`);
    return [await commit(place, `${name}/a.txt`)];
  },
  "an older commit": noise(async ({ git, worktree }) =>
    git("checkout", "--quiet", "--detach", `${worktree.baseSha}^`),
  ),
  "a pack": noise(async ({ git }) => {
    await git("repack", "-a", "-d", "-l", "--quiet");
    await git("pack-refs", "--all");
  }),
  "a shallow fetch": noise(({ git, remote }) =>
    git("fetch", "--quiet", "--depth=1", `file://${remote}`, "main"),
  ),
  "a worktree of its own": async (place, { name }) => {
    await place.git("worktree", "add", "--quiet", "--detach", `${name}-tree`);
    const inner = join(place.path, `${name}-tree`);
    const made = await commit(
      { ...place, path: inner, git: (...args) => place.git("-C", inner, ...args) },
      "x",
    );
    return [made, { is: "kept", path: `${name}-tree` }];
  },
};

const files: Record<string, Work["make"]> = {
  "a file": async (place, { name }) => [await put(place, `${name}/a.txt`, "work\n")],
  "odd names": async (place, { name, variant }) =>
    Promise.all(
      [0, 1, 2].map((nth) =>
        put(place, `${name}/${names[(variant + nth * 11) % names.length]}`, `odd ${nth}\n`),
      ),
    ),
  "an odd name at the top": async (place, { name, variant }) => [
    await put(place, `${name}${oddNames[variant % (oddNames.length - 1)]}`, "top\n"),
  ],
  "a deep path": async (place, { name, variant }) => [
    await put(place, `${name}/${"directory/".repeat(20 + (variant % 60))}a.txt`, "deep\n"),
  ],
  "a program": async (place, { name }) => {
    await put(place, `${name}/run.sh`, "#!/bin/sh\n");
    await chmod(join(place.path, name, "run.sh"), 0o755);
    return [await entryAt(place.path, `${name}/run.sh`)];
  },
  links: async ({ path, root }, { name, variant }) => {
    const targets = [
      "a.txt",
      "../README.md",
      "nowhere",
      "../../..",
      "/etc/passwd",
      `${root}/outside`,
      ".",
      "l",
    ];
    await mkdir(join(path, name));
    await symlink(targets[variant % targets.length] ?? "", join(path, name, "l"));
    return [await entryAt(path, `${name}/l`)];
  },
  "an empty file": async (place, { name }) => [await put(place, `${name}/empty`, "")],
  "a large binary file": async (place, { name, variant }) => {
    const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, nth) => (nth * nth * (variant + 7)) >> 5));
    return [await put(place, `${name}/a.png`, bytes)];
  },
  "lines that end with CR": async (place, { name }) => [await put(place, `${name}/a.txt`, "a\r\nb\r\n")],
  "a changed file": change("README.md", "changed\n"),
  "a changed file of a driver": change("data.dat", "work\n"),
  "a deleted file": async ({ path }) => {
    await rm(join(path, "src/a.txt"));
    return [{ is: "absence", path: "src/a.txt" }];
  },
  "another mode": async ({ path }) => {
    await chmod(join(path, "src/run.sh"), 0o755);
    return [await entryAt(path, "src/run.sh")];
  },
  "a renamed file": async ({ path }, { name }) => {
    await rename(join(path, "src/b.txt"), join(path, `${name}.txt`));
    return [await entryAt(path, `${name}.txt`), { is: "absence", path: "src/b.txt" }];
  },
  "a file in place of a directory": async (place) => {
    await rm(join(place.path, "deep"), { recursive: true });
    return [await put(place, "deep", "flat\n"), { is: "absence", path: "deep/down/file.txt" }];
  },
  "a directory in place of a file": async (place) => {
    await rm(join(place.path, "keep.txt"));
    return [await put(place, "keep.txt/a.txt", "1\n"), { is: "absence", path: "keep.txt" }];
  },
  "a pointer of LFS": async (place, { name }) => [
    await put(place, `${name}/new.bin`, pointerOf({ hash: "0".repeat(64), size: 5 })),
  ],
  "content of LFS": noise(async (place) => {
    await mkdir(join(place.gitDir, "lfs"), { recursive: true });
    await put(place, "big.bin", bigContent);
  }),
  "changed content of LFS": async (place) => {
    await mkdir(join(place.gitDir, "lfs"), { recursive: true });
    return [await put(place, "other.bin", "BIG\n")];
  },
  "ignored files": noise(async ({ path }) => write(path, { "ignored/a.txt": "1\n", "debug.log": "1\n" })),
  "files without rights": async (place, { name }) => {
    const made = await put(place, `${name}/shut/a.txt`, "shut\n");
    await chmod(join(place.path, name, "shut/a.txt"), 0);
    await chmod(join(place.path, name, "shut"), 0);
    return [made];
  },
  "a repository": async ({ nest }, { name }) => {
    await nest(`${name}/its own`);
    return [{ is: "kept", path: `${name}/its own` }];
  },
  "a repository around a file": async (place, { name }) => {
    const made = await put(place, `${name}/a.txt`, "work\n");
    await place.nest(name);
    return [made, { is: "kept", path: name }];
  },
};

const indexes: Record<string, Work["make"]> = {
  "a staged file": async (place, { name }) => {
    const made = await put(place, `${name}/a.txt`, "staged\n");
    await place.git("add", "--", name);
    return [made];
  },
  "a staged file that is ignored": async (place, { name }) => {
    const made = await put(place, `${name}/a.log`, "staged\n");
    await place.git("add", "--force", "--", `${name}/a.log`);
    return [{ ...made, inIndexOnly: true }];
  },
  "an intent to add": async (place, { name }) => {
    const made = await put(place, `${name}/a.txt`, "intent\n");
    await place.git("add", "--intent-to-add", "--", name);
    return [made];
  },
  "a sparse checkout": async ({ path, git }) => {
    const made = await entryAt(path, "watched.txt");
    await git("update-index", "--skip-worktree", "watched.txt");
    await rm(join(path, "watched.txt"));
    return [{ ...made, isOld: true, inIndexOnly: true }];
  },
  "a change that git is told not to see": async (place, { variant }) => {
    const flag = variant % 2 === 0 ? "--assume-unchanged" : "--skip-worktree";
    await place.git("update-index", flag, "hidden.txt");
    return [await put(place, "hidden.txt", "not seen\n")];
  },
  "a file that is no longer tracked": async ({ path, git }) => {
    await git("rm", "--quiet", "--cached", "src/run.sh");
    return [{ ...(await entryAt(path, "src/run.sh")), isOld: true }];
  },
};

const merges: Record<string, Work["make"]> = {
  "a merge with conflicts": async (place, { name }) => {
    const file = `${name}-conflict.txt`;
    const ours = await commit(place, file);
    await place.git("checkout", "--quiet", "-b", `side-${name}`, "HEAD^");
    await write(place.path, { [file]: "otherwise\n" });
    await place.git("add", "--", file);
    await place.git("commit", "--quiet", "--message", "side");
    const side: Evidence = { is: "commit", id: await place.git("rev-parse", "HEAD") };
    if (ours.is === "commit") await place.git("merge", "--quiet", ours.id).catch(() => undefined);
    return [ours, side, await entryAt(place.path, file)];
  },
};

const inSubmodules: Record<string, Work["make"]> = {
  "a file in a submodule": async (place) => {
    await put(place, "lib/new.txt", "1\n");
    return [{ is: "kept", path: "lib" }];
  },
  "a changed file in a submodule's submodule": async (place) => {
    await put(place, "lib/deps/deps.txt", "2\n");
    return [{ is: "kept", path: "lib/deps" }];
  },
  "a commit in a submodule": async (place) => {
    const inner = join(place.path, "lib");
    const git = (...args: string[]) => place.git("-C", inner, ...args);
    const made = await commit({ ...place, path: inner, git }, "committed.txt");
    if (made.is !== "commit") return [];
    return [
      { is: "entry", path: "lib", entries: [`160000 commit ${made.id}`] },
      { is: "kept", path: "lib" },
    ];
  },
  "another commit of a submodule": async ({ git, path, nextLib }) => {
    await git("-C", join(path, "lib"), "checkout", "--quiet", nextLib);
    return [{ is: "entry", path: "lib", entries: [`160000 commit ${nextLib}`] }];
  },
};

const ranked = (rank: Work["rank"], makes: Record<string, Work["make"]>, base?: Base): [string, Work][] =>
  Object.entries(makes).map(([name, make]) => [name, { rank, make, ...(base && { base }) }]);

export const works = new Map<string, Work>([
  ...ranked(0, heads),
  ...ranked(1, merges),
  ...ranked(2, files),
  ...ranked(2, inSubmodules, "submodules"),
  ...ranked(3, indexes),
]);

import { execFile } from "node:child_process";
import {
  appendFile,
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { plainGit } from "../../../src/repos/plain-git.fixture.ts";
import type { Place } from "./place.ts";

/* What an agent can do to its clone so that the service reads, writes or waits elsewhere, or finds nothing. */

/** Honest work that a plant destroys, as its agent may: nobody can save it then. */
export type Spoilt = "commits" | "index" | "submodules";

/** `rank`: 2 is done within the clone, 3 puts something in its place. */
export type ClonePlant = {
  rank: 2 | 3;
  spoils?: readonly Spoilt[];
  put: (place: Place, own: { name: string; variant: number }) => Promise<unknown>;
};

/** A path of the clone that leads nowhere else, as an agent in its sandbox could write it; its directory is there. */
const own = async ({ gitDir }: Place, name: string): Promise<string> => {
  const parts = name.split("/");
  for (let at = gitDir, nth = 0; nth < parts.length; at = join(at, parts[nth++] ?? ""))
    if ((await lstat(at).catch(() => null))?.isSymbolicLink() === true) throw new Error(`${at} is a link`);
  await mkdir(dirname(join(gitDir, name)), { recursive: true });
  return join(gitDir, name);
};

const link = async (place: Place, target: string, name: string): Promise<void> => {
  const at = await own(place, name);
  await rm(at, { recursive: true, force: true });
  await symlink(target, at);
};

const put = async (place: Place, name: string, content: string | Buffer): Promise<void> => {
  const at = await own(place, name);
  if ((await lstat(at).catch(() => null))?.isFile() !== true) await rm(at, { recursive: true, force: true });
  await writeFile(at, content);
};

const append = async (place: Place, name: string, text: string): Promise<void> => {
  const at = await own(place, name);
  const stats = await lstat(at).catch(() => null);
  if (stats !== null && !stats.isFile()) throw new Error(`${at} is no file`);
  await appendFile(at, text);
};

const run = promisify(execFile);

export const makePipe = async (path: string): Promise<void> => {
  await rm(path, { recursive: true, force: true });
  await run("mkfifo", [path]);
};

const garbage = Buffer.from("garbage \0\xff\n".repeat(100), "latin1");

const byName = <Value>(names: readonly string[], make: (name: string) => Value): Record<string, Value> =>
  Object.fromEntries(names.map((name) => [name, make(name)]));

const labelled = (label: string, plants: Record<string, ClonePlant>): [string, ClonePlant][] =>
  Object.entries(plants).map(([name, plant]) => [`${label} ${name}`, plant]);

const parts =
  "HEAD packed-refs index refs logs objects info lfs modules worktrees shallow config hooks objects/info objects/pack refs/heads logs/HEAD FETCH_HEAD".split(
    " ",
  );

/** Such a link hides what was there, and is refused or passed over. */
const spoiltBy = (part: string): Spoilt[] =>
  /^(lfs|info|config|hooks|FETCH_HEAD|shallow)$/.test(part)
    ? []
    : part === "index"
      ? ["index"]
      : part === "modules"
        ? ["submodules"]
        : ["commits", "index"];

const linked = (target: (place: Place, part: string) => string): Record<string, ClonePlant> =>
  byName(parts, (part) => ({
    rank: 2,
    spoils: spoiltBy(part),
    put: (place) => link(place, target(place, part), part),
  }));

const pipes = byName(
  "HEAD packed-refs index config logs/HEAD refs/heads/pipe objects/info/alternates shallow info/exclude FETCH_HEAD index.lock".split(
    " ",
  ),
  (name): ClonePlant => ({
    rank: 2,
    spoils: spoiltBy(name.split("/")[0] ?? ""),
    put: async (place) => makePipe(await own(place, name)),
  }),
);

const locks = byName(
  "index.lock HEAD.lock packed-refs.lock config.lock shallow.lock packed-refs.new refs/heads/service/one.lock refs/remotes/origin/main.lock objects/info/commit-graphs/commit-graph-chain.lock".split(
    " ",
  ),
  (name): ClonePlant => ({ rank: 2, put: (place) => put(place, name, "") }),
);

const rubbish = byName(
  "index packed-refs HEAD config shallow logs/HEAD info/grafts info/sparse-checkout objects/info/commit-graph objects/pack/multi-pack-index objects/info/alternates ORIG_HEAD MERGE_HEAD".split(
    " ",
  ),
  (name): ClonePlant => ({
    rank: 2,
    spoils: /^(index|packed-refs|HEAD|shallow|logs|objects)/.test(name) ? ["commits", "index"] : [],
    put: (place) => put(place, name, garbage),
  }),
);

const huge = byName(
  "packed-refs index HEAD refs/heads/huge logs/HEAD info/exclude shallow objects/info/alternates config lfs/huge".split(
    " ",
  ),
  (name): ClonePlant => ({
    rank: 2,
    spoils: spoiltBy(name.split("/")[0] ?? ""),
    put: async (place) => {
      await append(place, name, "");
      await truncate(join(place.gitDir, name), 1e9);
    },
  }),
);

/** Refs with what is no id of the agent's, or one of another repository's. */
const refs = byName(
  [
    "its tip",
    "an option",
    "a name",
    "an expression",
    "a short id",
    "two ids",
    "zeros",
    "no such object",
    "a tree",
  ],
  (text): ClonePlant => ({
    rank: 2,
    put: async (place, { name, variant }) => {
      const { tip, ids } = place.secret;
      const values: Record<string, string> = {
        "its tip": `${tip}\n`,
        "an option": "--upload-pack=touch\n",
        "a name": "refs/heads/service/one\n",
        "an expression": `${tip}^{/x}\n`,
        "a short id": `${tip.slice(0, 12)}\n`,
        "two ids": `${tip}\n${tip}\n`,
        zeros: `${"0".repeat(40)}\n`,
        "no such object": `${"1".repeat(40)}\n`,
        "a tree": `${ids[variant % ids.length]}\n`,
      };
      const spots = [`refs/heads/${name}`, `refs/tags/${name}`, "refs/stash", "FETCH_HEAD", "MERGE_HEAD"];
      await put(place, spots[variant % spots.length] ?? "", values[text] ?? "");
      await append(place, "logs/HEAD", `${tip} ${tip} x <x> 1 +0000\tcheckout: moving from ${tip} to x\n`);
      await put(place, `worktrees/${name}/HEAD`, `${tip}\n`);
      await put(place, `worktrees/${name}/gitdir`, `${place.secret.gitDir}\n`);
      await put(place, `worktrees/${name}/commondir`, `${place.secret.gitDir}\n`);
    },
  }),
);

const cutPack = async (place: Place, broken: (bytes: Buffer) => Buffer): Promise<void> => {
  const packs = join(place.gitDir, "objects/pack");
  await plainGit(place.path, "repack", "-a", "-d", "-l", "--quiet");
  const pack = (await readdir(packs)).find((name) => name.endsWith(".pack"));
  if (pack === undefined) throw new Error("there is no pack");
  const bytes = await readFile(join(packs, pack));
  await rm(join(packs, pack));
  await writeFile(join(packs, pack), broken(bytes));
};

/** A commit with a tree that git does not make. */
const commitTree = async (place: Place, entries: Buffer, ref: string): Promise<void> => {
  const raw = await own(place, "raw");
  await writeFile(raw, entries);
  const tree = await place.git("hash-object", "-t", "tree", "--literally", "-w", raw);
  await rm(raw);
  const commit = await place.git("commit-tree", "-p", "HEAD", "-m", "x", tree);
  await place.git("update-ref", ref, commit);
};

const entry = (mode: string, name: string, id: string): Buffer =>
  Buffer.concat([Buffer.from(`${mode} ${name}\0`, "latin1"), Buffer.from(id, "hex")]);

const trees = byName(
  [".git", "..", ".GIT", "git~1", ".", "a/b", "", "\u200c.git", ".gitmodules\\x", "missing"],
  (entryName): ClonePlant => ({
    rank: 2,
    put: async (place, { name, variant }) => {
      const id =
        entryName === "missing"
          ? "2".repeat(40)
          : await place.git("rev-parse", `${place.worktree.baseSha}:README.md`);
      const mode = ["100644", "120000", "040000", "160000", "100777"][variant % 5] ?? "";
      const ref = variant % 3 === 0 ? `refs/heads/${place.worktree.branch}` : `refs/heads/aside-${name}`;
      await commitTree(place, entry(mode, entryName, id), ref);
    },
  }),
);

const within: Record<string, ClonePlant> = {
  "an object that is a link": {
    rank: 2,
    put: async (place) => {
      const { tip, gitDir } = place.secret;
      const object = `objects/${tip.slice(0, 2)}/${tip.slice(2)}`;
      await link(place, join(gitDir, object), object);
      await put(place, "refs/heads/named", `${tip}\n`);
    },
  },
  "borrowed objects": {
    rank: 2,
    put: async (place) => {
      await append(place, "objects/info/alternates", `${place.secret.gitDir}/objects\n`);
      await put(place, "refs/heads/named", `${place.secret.tip}\n`);
    },
  },
  "objects borrowed by a way around": {
    rank: 2,
    put: async (place) =>
      append(place, "objects/info/alternates", '../../../../repos/../repos\n"/\\x2f"\n#x\n'),
  },
  "objects borrowed over http": {
    rank: 2,
    put: (place) => put(place, "objects/info/http-alternates", "http://127.0.0.1:1/x\n"),
  },
  "objects borrowed twice": {
    rank: 2,
    put: async (place) => {
      await put(place, "lent/objects/info/alternates", `${place.secret.gitDir}/objects\n`);
      await append(place, "objects/info/alternates", `${place.gitDir}/lent/objects\n`);
      await put(place, "refs/heads/named", `${place.secret.tip}\n`);
    },
  },
  "a common directory": { rank: 2, put: (place) => put(place, "commondir", `${place.secret.gitDir}\n`) },
  "replaced objects": {
    rank: 2,
    put: async (place) => put(place, `refs/replace/${place.worktree.baseSha}`, `${place.secret.tip}\n`),
  },
  "attributes and ignored names of its own": {
    rank: 2,
    put: async (place) => {
      await put(place, "info/attributes", "* filter=e diff=e merge=e export-subst\n");
      await put(place, "info/exclude", "*\n");
    },
  },
  "a sparse checkout of nothing": {
    rank: 2,
    put: async (place) => {
      await put(place, "info/sparse-checkout", "/nothing\n");
      await append(place, "config", "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n");
    },
  },
  "a cut pack": {
    rank: 2,
    spoils: ["commits", "index"],
    put: (place) => cutPack(place, (bytes) => bytes.subarray(0, 40)),
  },
  "an overwritten pack": {
    rank: 2,
    spoils: ["commits", "index"],
    put: (place) => cutPack(place, (bytes) => bytes.fill(0xff, 14, bytes.length - 24)),
  },
  "a pack that is a link": {
    rank: 2,
    put: (place) => link(place, `${place.secret.gitDir}/objects/pack`, "objects/pack/pack-x.pack"),
  },
  "HEAD that names another file": {
    rank: 2,
    spoils: ["commits", "index"],
    put: (place) => put(place, "HEAD", "ref: refs/../../../../outside/secret\n"),
  },
  "an empty HEAD": { rank: 2, spoils: ["commits", "index"], put: (place) => put(place, "HEAD", "") },
  "a ref that is a directory": {
    rank: 2,
    put: async (place, { name }) => mkdir(await own(place, `refs/heads/${name}/x`), { recursive: true }),
  },
  "its branch is deleted": {
    rank: 2,
    put: async ({ git, worktree }) => {
      await git("checkout", "--quiet", "--detach");
      await git("update-ref", "-d", `refs/heads/${worktree.branch}`);
    },
  },
  "what the service stages": {
    rank: 2,
    put: async (place) => {
      await link(place, join(place.root, "outside"), "service-submodule");
      await link(place, join(place.root, "outside"), "lfs");
    },
  },
  "a branch of the remote's": {
    rank: 2,
    put: async (place, { name }) => {
      await link(place, join(place.root, "outside"), `refs/remotes/origin/${name}`);
      await put(place, "refs/remotes/origin/service", `${place.worktree.baseSha}\n`);
    },
  },
};

const instead: Record<string, ClonePlant> = {
  "no clone": {
    rank: 3,
    spoils: ["commits", "index"],
    put: ({ gitDir }) => rm(gitDir, { recursive: true }),
  },
  "a clone of its own making": {
    rank: 3,
    spoils: ["commits", "index"],
    put: async ({ gitDir, path }) => {
      await rm(gitDir, { recursive: true });
      await plainGit(path, "init", "--quiet");
    },
  },
  "a clone that is a link to another": {
    rank: 3,
    spoils: ["commits", "index"],
    put: async ({ gitDir, secret }) => {
      await rm(gitDir, { recursive: true });
      await symlink(secret.gitDir, gitDir);
    },
  },
  "a clone that a file names": {
    rank: 3,
    spoils: ["commits", "index"],
    put: async ({ gitDir, secret }) => {
      await rm(gitDir, { recursive: true });
      await writeFile(gitDir, `gitdir: ${secret.gitDir}\n`);
    },
  },
  "a clone that was moved": {
    rank: 3,
    put: async ({ gitDir, path }, { variant }) => {
      await rename(gitDir, join(path, ".moved.git"));
      if (variant % 2 === 0) await symlink(".moved.git", gitDir);
      else await writeFile(gitDir, "gitdir: .moved.git\n");
    },
  },
  "a clone that is another's copy": {
    rank: 3,
    spoils: ["commits", "index"],
    put: async ({ gitDir, nested }) => {
      await rm(gitDir, { recursive: true });
      await cp(join(nested.from, ".git"), gitDir, { recursive: true });
    },
  },
  "a link to nothing for a clone": {
    rank: 3,
    spoils: ["commits", "index"],
    put: async ({ gitDir }) => {
      await rm(gitDir, { recursive: true });
      await symlink("/nowhere", gitDir);
    },
  },
  "a pipe for a clone": { rank: 3, spoils: ["commits", "index"], put: ({ gitDir }) => makePipe(gitDir) },
};

export const clonePlants = new Map<string, ClonePlant>([
  ...labelled(
    "a link to another clone's",
    linked(({ secret }, part) => join(secret.gitDir, part)),
  ),
  ...labelled(
    "a link out of the worktree in place of",
    linked(({ root }) => join(root, "outside/secret")),
  ),
  ...labelled("a pipe in place of", pipes),
  ...labelled("a lock", locks),
  ...labelled("garbage in", rubbish),
  ...labelled("a gigabyte of", huge),
  ...labelled("a ref that names", refs),
  ...labelled("a commit with the entry", trees),
  ...Object.entries(within),
  ...Object.entries(instead),
]);

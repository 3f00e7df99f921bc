import { appendFile, chmod, copyFile, mkdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { plainGit, write } from "../../../src/repos/plain-git.fixture.ts";
import type { Base, Place } from "./place.ts";
import { racing } from "./race.ts";

/* Programs in configuration that git obeys: what can name one, and the places where such configuration can lie. */

/** Lines of a configuration, by what they have git run. `hooks`: a directory of hooks. */
const ways: Record<string, (run: string, about: { hooks: string; path: string }) => string> = {
  "a clean filter": (run) => `[filter "e"]\n\tclean = ${run}\n\trequired = true\n`,
  "a smudge filter": (run) => `[filter "e"]\n\tsmudge = ${run}\n\tclean = ${run}\n`,
  "a filter process": (run) => `[filter "e"]\n\tprocess = ${run}\n`,
  "filters of LFS": (run) => `[filter "lfs"]\n\tclean = ${run}\n\tsmudge = ${run}\n\tprocess = ${run}\n`,
  "a monitor": (run) => `[core]\n\tfsmonitor = ${run}\n\tfsmonitorHookVersion = 2\n`,
  hooks: (_, { hooks }) => `[core]\n\thooksPath = ${hooks}\n`,
  "hooks by name": (run) => `[hook "e"]\n\tcommand = ${run}\n\tevent = reference-transaction\n`,
  "a text converter": (run) => `[diff "e"]\n\ttextconv = ${run}\n\tcachetextconv = true\n`,
  "a program that compares": (run) => `[diff]\n\texternal = ${run}\n[diff "e"]\n\tcommand = ${run}\n`,
  "a merge driver": (run) => `[merge]\n\tdefault = e\n[merge "e"]\n\tdriver = ${run}\n`,
  "a program for ssh": (run) => `[core]\n\tsshCommand = ${run}\n\tgitProxy = ${run}\n`,
  "pager and editor": (run) =>
    `[core]\n\tpager = ${run}\n\teditor = ${run}\n[pager]\n\tdiff = ${run}\n\tstatus = ${run}\n[sequence]\n\teditor = ${run}\n[interactive]\n\tdiffFilter = ${run}\n`,
  "a program that signs": (run) =>
    `[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[gpg]\n\tprogram = ${run}\n[gpg "ssh"]\n\tprogram = ${run}\n\tdefaultKeyCommand = ${run}\n[log]\n\tshowSignature = true\n`,
  "credential helpers": (run) => `[credential]\n\thelper = "!${run}"\n[core]\n\taskPass = ${run}\n`,
  aliases: (run) =>
    ["add", "status", "fill", "update-index", "read-tree", "pack-objects"]
      .map((name) => `[alias]\n\t${name} = "!${run}"\n`)
      .join(""),
  "a helper of URLs": (run, { path }) =>
    `[url "ext::${run} "]\n\tinsteadOf = /\n[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n[remote "origin"]\n\turl = ext::${run}\n\tvcs = e\n\tpushurl = ${path}\n`,
  "programs for transfers": (run) =>
    `[remote "origin"]\n\tuploadpack = ${run}\n\treceivepack = ${run}\n[uploadpack]\n\tpackObjectsHook = ${run}\n[core]\n\talternateRefsCommand = ${run}\n`,
  "a promisor": (run, { path }) =>
    `[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\tpromisor = true\n\turl = ${path}\n\tuploadpack = ${run}\n`,
  "an update of submodules": (run) =>
    `[submodule "lib"]\n\tupdate = "!${run}"\n[submodule]\n\trecurse = true\n`,
  "a command for trailers": (run) => `[trailer "e"]\n\tcommand = ${run}\n\tifmissing = add\n`,
};

/** Files that configuration leads to, and what cannot be read. */
const others: typeof ways = {
  "a working tree elsewhere": (_, { path }) => `[core]\n\tworktree = ${path}/..\n`,
  "no working tree": () => "[core]\n\tbare = true\n",
  "files of attributes and ignored names": (_, { path }) =>
    `[core]\n\tattributesFile = ${path}/traps/a\n\texcludesFile = ${path}/traps/b\n\tautocrlf = true\n\tignoreCase = true\n\tfileMode = false\n\tsymlinks = false\n`,
  "a format of its own": () =>
    "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n\trefStorage = reftable\n",
  "what is no configuration": () => "[broken\n\0\xff = \n",
  "an index of its own": () =>
    "[index]\n\tsparse = true\n\tversion = 4\n[core]\n\tsplitIndex = true\n\tsparseCheckout = true\n",
};

const texts = { ...ways, ...others };

type Planting = { place: Place; way: string; name: string };

const linesOf = ({ place: { trap, path }, way }: Planting): string =>
  texts[way]?.(`${trap.program} '${way}'`, { hooks: join(trap.directory, "hooks"), path }) ?? "";

/** Its commit goes into the index around it. Git has to look into the file, which has the same length. */
const stage = async (root: string, name: string, commit: string): Promise<void> => {
  await plainGit(root, "update-index", "--add", "--cacheinfo", `160000,${commit},${name}`);
  await touch(join(root, name, "file"));
};

const touch = async (file: string): Promise<void> => {
  await writeFile(file, "c\n");
  const later = new Date(Date.now() + 10_000);
  await utimes(file, later, later);
};

/** A repository in the worktree, with that configuration. */
const nested = async ({ place, way, name }: Planting): Promise<string> => {
  const gitDir = await place.nest(name);
  if (way === "filters of LFS") await write(gitDir, { "info/attributes": "* filter=lfs\n" });
  if (way === "a promisor") await rm(join(gitDir, "objects", ...(await treePath(place))), { force: true });
  place.repositories.push(name);
  return gitDir;
};

const treePath = async ({ nested: { from } }: Place): Promise<string[]> => {
  const tree = await plainGit(from, "rev-parse", "HEAD^{tree}");
  return [tree.slice(0, 2), tree.slice(2)];
};

/** Moves a git directory, and leaves a file that names it. */
const moveAway = async (gitDir: string, to: string, named: string): Promise<void> => {
  await rename(gitDir, to);
  await writeFile(gitDir, `gitdir: ${named}\n`);
};

const hooked = async (gitDir: string, { trap }: Place): Promise<void> => {
  await mkdir(join(gitDir, "hooks"), { recursive: true });
  for (const name of ["post-index-change", "reference-transaction", "pre-commit", "post-checkout"])
    await copyFile(trap.program, join(gitDir, "hooks", name));
};

/** `rank`: repositories come before the agent's own clone, which git that makes them would obey. */
type Spot = { rank: 0 | 1; base?: Base; put: (planting: Planting) => Promise<unknown> };

const spots: Record<string, Spot> = {
  "a repository that is staged": {
    rank: 0,
    put: async (planting) => {
      const gitDir = await nested(planting);
      await stage(planting.place.path, planting.name, planting.place.nested.commit);
      await appendFile(join(gitDir, "config"), linesOf(planting));
      await hooked(gitDir, planting.place);
    },
  },
  "a repository that is committed": {
    rank: 0,
    put: async (planting) => {
      const { place, name } = planting;
      const gitDir = await nested(planting);
      await place.git("update-index", "--add", "--cacheinfo", `160000,${place.nested.commit},${name}`);
      await place.git("commit", "--quiet", "--message", "nests");
      await touch(join(place.path, name, "file"));
      await appendFile(join(gitDir, "config"), linesOf(planting));
    },
  },
  "a repository": {
    rank: 0,
    put: async (planting) => appendFile(join(await nested(planting), "config"), linesOf(planting)),
  },
  "a repository whose configuration includes a file": {
    rank: 0,
    put: async (planting) => {
      const gitDir = await nested(planting);
      await stage(planting.place.path, planting.name, planting.place.nested.commit);
      await writeFile(join(gitDir, "more"), linesOf(planting));
      await appendFile(
        join(gitDir, "config"),
        `[include]\n\tpath = more\n[includeIf "gitdir:/"]\n\tpath = more\n`,
      );
    },
  },
  "a repository behind a .git file": {
    rank: 0,
    put: async (planting) => {
      const { place, name } = planting;
      const gitDir = await nested(planting);
      await stage(place.path, name, place.nested.commit);
      const away = join(place.path, `.away-${name}`);
      await moveAway(gitDir, away, `../.away-${name}`);
      await appendFile(
        join(away, "config"),
        `[core]\n\tworktree = ${join(place.path, name)}\n${linesOf(planting)}`,
      );
    },
  },
  "a submodule that nobody declared": {
    rank: 0,
    put: async (planting) => {
      const { place, name } = planting;
      const gitDir = await nested(planting);
      await stage(place.path, name, place.nested.commit);
      const modules = join(place.gitDir, "modules");
      await mkdir(modules, { recursive: true });
      await moveAway(gitDir, join(modules, name), `../.git/modules/${name}`);
      await appendFile(
        join(modules, name, "config"),
        `[core]\n\tworktree = ${join(place.path, name)}\n${linesOf(planting)}`,
      );
    },
  },
  "a second worktree": {
    rank: 0,
    put: async (planting) => {
      const { place, name } = planting;
      const gitDir = await nested({ ...planting, name: `${name}-main` });
      await plainGit(join(place.path, `${name}-main`), "worktree", "add", "--quiet", join(place.path, name));
      place.repositories.push(name);
      await stage(place.path, name, place.nested.commit);
      await appendFile(join(gitDir, "config"), "[extensions]\n\tworktreeConfig = true\n");
      await writeFile(join(gitDir, "worktrees", name, "config.worktree"), linesOf(planting));
    },
  },
  "a repository in a repository": {
    rank: 0,
    put: async (planting) => {
      const { place, name } = planting;
      await nested(planting);
      await stage(place.path, name, place.nested.commit);
      const inner = await place.nest(`${name}/inner`);
      await stage(join(place.path, name), "inner", place.nested.commit);
      await appendFile(join(inner, "config"), linesOf(planting));
    },
  },
  "a repository that comes and goes": {
    rank: 0,
    put: async (planting) => {
      const { place } = planting;
      const gitDir = await nested({ ...planting, name: racing.name });
      await stage(place.path, racing.name, place.nested.commit);
      await appendFile(join(gitDir, "config"), linesOf(planting));
      place.isRacing = true;
    },
  },
  "a repository in an ignored directory": {
    rank: 0,
    put: async (planting) => {
      const gitDir = await nested({ ...planting, name: `ignored/${planting.name}` });
      await appendFile(join(gitDir, "config"), linesOf(planting));
    },
  },
  "a submodule": {
    rank: 0,
    base: "submodules",
    put: async (planting) => {
      planting.place.repositories.push("lib");
      await touchText(join(planting.place.path, "lib/lib.txt"), planting);
      await appendFile(join(planting.place.gitDir, "modules/lib/config"), linesOf(planting));
      await hooked(join(planting.place.gitDir, "modules/lib"), planting.place);
    },
  },
  "a submodule's submodule": {
    rank: 0,
    base: "submodules",
    put: async (planting) => {
      await touchText(join(planting.place.path, "lib/deps/deps.txt"), planting);
      await appendFile(join(planting.place.gitDir, "modules/lib/modules/deps/config"), linesOf(planting));
    },
  },
  "a repository that is staged in a submodule": {
    rank: 0,
    base: "submodules",
    put: async (planting) => {
      const { place, name } = planting;
      const gitDir = await place.nest(`lib/${name}`);
      await stage(join(place.path, "lib"), name, place.nested.commit);
      await appendFile(join(gitDir, "config"), linesOf(planting));
    },
  },
  "the agent's clone": {
    rank: 1,
    put: async (planting) => {
      await appendFile(join(planting.place.gitDir, "config"), linesOf(planting));
      await hooked(planting.place.gitDir, planting.place);
    },
  },
  "a file that the agent's clone includes": {
    rank: 1,
    put: async (planting) => {
      const { trap, gitDir } = planting.place;
      await write(trap.directory, { [planting.name]: linesOf(planting) });
      await appendFile(join(gitDir, "config"), `[include]\n\tpath = ${trap.directory}/${planting.name}\n`);
    },
  },
  "the agent's clone as a worktree": {
    rank: 1,
    put: async (planting) => {
      const { gitDir } = planting.place;
      await appendFile(join(gitDir, "config"), "[extensions]\n\tworktreeConfig = true\n");
      await appendFile(join(gitDir, "config.worktree"), linesOf(planting));
    },
  },
};

/** Git has to look into the file: its text is as long as before, with attributes for the filters. */
const touchText = async (file: string, { way }: Planting): Promise<void> => {
  await write(join(file, ".."), {
    ".gitattributes": `* filter=${way === "filters of LFS" ? "lfs" : "e"} diff=e\n`,
  });
  const later = new Date(Date.now() + 10_000);
  await utimes(file, later, later);
};

/** Hooks for `core.hooksPath`. */
export const makeHooks = async ({ trap }: Place): Promise<void> => {
  for (const name of "pre-push post-index-change reference-transaction post-checkout fsmonitor-watchman".split(
    " ",
  )) {
    const hook = join(trap.directory, "hooks", name);
    await writeFile(hook, `#!/bin/sh\nexec ${trap.program} 'a hook'\n`);
    await chmod(hook, 0o755);
  }
};

type Program = Pick<Spot, "rank" | "base"> & {
  put: (place: Place, own: { name: string }) => Promise<unknown>;
};

/** Each way at each spot, by name. */
export const programs = new Map<string, Program>(
  Object.entries(spots).flatMap(([spot, { put, ...more }]) =>
    Object.keys(texts).map((way): [string, Program] => [
      `${way} in ${spot}`,
      { ...more, put: (place, { name }) => put({ place, way, name }) },
    ]),
  ),
);

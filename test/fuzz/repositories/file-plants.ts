import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { once } from "node:events";
import { mkdir, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { write } from "../../../src/repos/plain-git.fixture.ts";
import { makePipe, type Spoilt } from "./clone-plants.ts";
import type { Base, Place } from "./place.ts";

/* Files of the worktree that git, or the service, reads for what they say, or waits for. */

/** `isSlow`: git waits for it to its limit. */
export type FilePlant = {
  rank: 1;
  base?: Base;
  isSlow?: boolean;
  spoils?: readonly Spoilt[];
  put: (place: Place, own: { name: string; variant: number }) => Promise<unknown>;
};

const attributes = [
  "* filter=e diff=e merge=e\n",
  "* text=auto eol=crlf\n",
  "*.rc working-tree-encoding=UTF-16LE-BOM\n",
  "[attr]a a\n* a\n",
  `* ${"x".repeat(5000)}\n`,
  "* filter=lfs diff=lfs merge=lfs -text\n",
  "* -diff -merge export-ignore ident\n",
  "\0\xff* filter\n",
  "* eol=lf working-tree-encoding=nothing\n".replace("* ", "*.rc "),
];

const declarations = ({ root, secret, trap }: Place): string[] => {
  const one = (name: string, url: string, more = "") =>
    `[submodule "${name}"]\n\tpath = lib\n\turl = ${url}\n${more}`;
  return [
    one("lib", `ext::${trap.program}`, `\tupdate = !${trap.program}\n\tfetchRecurseSubmodules = true\n`),
    one("../../../outside", secret.gitDir),
    one("lib", "--upload-pack=x"),
    one("lib", join(root, "secret.git"), "\tignore = all\n\tshallow = true\n"),
    "[broken",
    "\0\xff",
    `[include]\n\tpath = ${trap.directory}/more\n`,
  ];
};

const run = promisify(execFile);

const links = (name: string, targets: (place: Place) => string[]): FilePlant => ({
  rank: 1,
  put: async (place, own) => {
    const all = targets(place);
    await mkdir(join(place.path, own.name), { recursive: true });
    await symlink(all[own.variant % all.length] ?? "", join(place.path, own.name, name));
  },
});

/** Only `README.md` of the base has such a name: what is put beside it hides nothing. */
const leading = ({ root, secret }: Place): string[] => [
  join(root, "outside/secret"),
  join(root, "outside"),
  secret.gitDir,
  join(secret.gitDir, "config"),
  "/proc/self/environ",
  "/dev/zero",
  "../../../../outside",
  ".",
  "/",
];

export const filePlants = new Map<string, FilePlant>([
  ["a link to a secret", links("link", leading)],
  ["attributes that are a link", links(".gitattributes", leading)],
  ["ignored names that are a link", links(".gitignore", leading)],
  ["declarations that are a link", links(".gitmodules", leading)],
  ["a repository that is a link", links(".git", leading)],
  [
    "a directory that is a link to a repository",
    {
      rank: 1,
      put: async ({ path, secret, git, nested }, { name }) => {
        await symlink(secret.gitDir, join(path, name));
        await git("update-index", "--add", "--cacheinfo", `160000,${nested.commit},${name}`).catch(
          () => undefined,
        );
      },
    },
  ],
  [
    "attributes",
    {
      rank: 1,
      put: ({ path }, { name, variant }) =>
        write(path, {
          [variant % 2 === 0 ? `${name}/.gitattributes` : ".gitattributes"]:
            attributes[variant % attributes.length] ?? "",
          [`${name}/a.rc`]: variant % 5 === 0 ? "odd length\n" : "no",
          [`${name}/a.dat`]: "data\n",
        }),
    },
  ],
  [
    "declarations of submodules",
    {
      rank: 1,
      put: async (place, { variant }) => {
        const all = declarations(place);
        await write(place.path, { ".gitmodules": all[variant % all.length] ?? "" });
      },
    },
  ],
  [
    "a gitlink to nothing",
    {
      rank: 1,
      put: async ({ path, git, secret, nested }, { name, variant }) => {
        const id = [secret.tip, nested.commit, "3".repeat(40)][variant % 3];
        await git("update-index", "--add", "--cacheinfo", `160000,${id},${name}`);
        if (variant % 2 === 0) await write(path, { [`${name}/.git`]: `gitdir: ${secret.gitDir}\n` });
      },
    },
  ],
  [
    "a .git file",
    {
      rank: 1,
      put: ({ path, secret }, { name, variant }) => {
        const texts = [secret.gitDir, "../.git", "/nowhere", ".", "/proc/self", "x".repeat(10_000)];
        return write(path, {
          [`${name}/.git`]: `gitdir: ${texts[variant % texts.length]}\n`,
          [`${name}/a`]: "a\n",
        });
      },
    },
  ],
  [
    "a .git file that is huge, or a pipe",
    {
      rank: 1,
      put: async ({ path }, { name, variant }) => {
        await write(path, { [`${name}/.git`]: "gitdir: x", [`${name}/a`]: "a\n" });
        if (variant % 2 === 0) await truncate(join(path, name, ".git"), 1e9);
        else await makePipe(join(path, name, ".git"));
      },
    },
  ],
  [
    "names that git refuses",
    {
      rank: 1,
      put: ({ path }, { name }) => write(path, { [`${name}/.GIT/a`]: "1\n", [`${name}/git~1/a`]: "1\n" }),
    },
  ],
  [
    "a huge file",
    {
      rank: 1,
      put: async ({ path }, { name, variant }) => {
        const file = [".gitattributes", ".gitmodules", "huge.bin", "huge"][variant % 4];
        await write(path, { [`${name}/${file}`]: "" });
        await truncate(join(path, name, file ?? ""), variant % 2 === 0 ? 300e9 : 2e9);
      },
    },
  ],
  [
    "a pipe",
    {
      rank: 1,
      put: async ({ path }, { name }) => {
        await mkdir(join(path, name), { recursive: true });
        await makePipe(join(path, name, "pipe"));
      },
    },
  ],
  [
    "a pipe that git reads",
    {
      rank: 1,
      isSlow: true,
      put: async ({ path }, { name, variant }) => {
        await write(path, { [`${name}/a.txt`]: "1\n" });
        await makePipe(join(path, name, variant % 2 === 0 ? ".gitignore" : ".gitattributes"));
      },
    },
  ],
  [
    "a socket",
    {
      rank: 1,
      put: async ({ path }, { name }) => {
        await mkdir(join(path, name), { recursive: true });
        const server = createServer();
        await once(server.listen(`${path}/${name}/s`), "listening");
        server.unref();
        // Its file stays where it is renamed: `close` would remove it.
        await run("mv", [join(path, name, "s"), join(path, name, "socket")]);
        server.close();
      },
    },
  ],
  [
    "a tree below the path limit",
    {
      rank: 1,
      put: async ({ path }, { name }) => {
        const part = "d".repeat(200);
        const dig = `mkdir ${name} && cd ${name} && for i in $(seq 25); do mkdir ${part} && cd -P ${part} || exit; done; echo 1 >a`;
        await run("sh", ["-c", dig], { cwd: path });
      },
    },
  ],
  [
    "links that go round",
    {
      rank: 1,
      put: async ({ path }, { name }) => {
        await mkdir(join(path, name), { recursive: true });
        await symlink(`../${name}/b`, join(path, name, "a"));
        await symlink(`../${name}/a`, join(path, name, "b"));
      },
    },
  ],
  [
    "files for exchange that are links",
    {
      rank: 1,
      put: async ({ path, root }) => {
        await mkdir(join(path, ".svc"), { recursive: true });
        await symlink(join(root, "outside"), join(path, ".svc/out"));
        await symlink(join(root, "outside/secret"), join(path, ".svc/in"));
      },
    },
  ],
  [
    "a link in place of a submodule",
    {
      rank: 1,
      base: "submodules",
      spoils: ["submodules"],
      put: async ({ path, root }, { variant }) => {
        const at = join(path, variant % 2 === 0 ? "lib/deps" : "lib/.git");
        await run("rm", ["-rf", at]);
        await symlink(join(root, variant % 3 === 0 ? "secret.git" : "outside"), at);
      },
    },
  ],
  [
    "a git file of a submodule that leads elsewhere",
    {
      rank: 1,
      base: "submodules",
      spoils: ["submodules"],
      put: ({ path, secret, root }, { variant }) => {
        const to = [secret.gitDir, join(root, "lib.git"), "../.git", "../.git/modules/../../.git"][
          variant % 4
        ];
        return writeFile(join(path, "lib/.git"), `gitdir: ${to}\n`);
      },
    },
  ],
  [
    "a submodule's HEAD",
    {
      rank: 1,
      base: "submodules",
      spoils: ["submodules"],
      put: ({ gitDir, secret }, { variant }) => {
        const texts = [
          `${secret.tip}\n`,
          "ref: refs/heads/../../../../x\n",
          "--option\n",
          "3".repeat(40),
          "",
        ];
        return writeFile(join(gitDir, "modules/lib/HEAD"), texts[variant % texts.length] ?? "");
      },
    },
  ],
  [
    "a submodule's files that are huge, or pipes",
    {
      rank: 1,
      base: "submodules",
      spoils: ["submodules"],
      put: async ({ gitDir }, { variant }) => {
        const name =
          ["HEAD", "logs/HEAD", "packed-refs", "index", "objects/info/alternates"][variant % 5] ?? "";
        const file = join(gitDir, "modules/lib", name);
        if (variant % 2 === 0) await truncate(file, 1e9);
        else await makePipe(file);
      },
    },
  ],
  [
    "objects that a submodule borrows",
    {
      rank: 1,
      base: "submodules",
      spoils: ["submodules"],
      put: ({ gitDir, secret }) =>
        write(gitDir, {
          "modules/lib/objects/info/alternates": `${secret.gitDir}/objects\n`,
          "modules/lib/HEAD": `${secret.tip}\n`,
        }),
    },
  ],
]);

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test, vi } from "vitest";
import { newestVersion } from "../../src/agents/claude/version.ts";
import { linkPrograms } from "../../tools/install/links.ts";
import { addPathLines } from "../../tools/install/path-lines.ts";
import { afterFile } from "../cleanup.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

const root = join(import.meta.dirname, "..", "..");
const path = "/usr/bin:/bin";

const startInstall = (home: string, env: Record<string, string> = {}) => {
  const script = join(root, "tools", "install-user.ts");
  const child = spawn(process.execPath, [script], {
    env: { HOME: home, PATH: path, SHELL: "/bin/bash", LANG: "C.UTF-8", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  afterFile(() => child.kill("SIGKILL"));
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]).then(
    ([stdout, stderr]) => ({ stdout, stderr, code: child.exitCode }),
  );
  return { child, ended };
};

const write = async (file: string, content: string): Promise<void> => {
  await mkdir(join(file, ".."), { recursive: true });
  await writeFile(file, content, { mode: 0o755 });
};

test("two at once, one of them killed: the other completes, with a foreign svc in the way exit 1 and the path that works", async () => {
  const home = join(await temporaryDirectory(), "home with spaces");
  const share = join(home, ".local", "share");
  const versions = join(share, "svc");
  const foreign = join(home, ".local", "bin", "svc");
  await write(foreign, "#!/bin/sh\necho mine\n");
  const names = async () => await readdir(versions).catch(() => []);
  const killed = startInstall(home);
  await until(async () => (await names()).some((name) => name.startsWith(".new-")), { seconds: 60 });
  const waiting = startInstall(home);
  let said = "";
  waiting.child.stderr.on("data", (chunk: string) => (said += chunk));
  await until(() => said.includes("Another install is under way"), { seconds: 60 });
  killed.child.kill("SIGKILL");
  const { stdout, code } = await waiting.ended;
  const program = join(versions, "current", "bin", "svc");
  expect(stdout).toContain(`${foreign} is not of this install, and stays. Use ${program} instead.\n`);
  expect(code).toBe(1);
  expect(await readFile(foreign, "utf8")).toContain("mine");
  const run = (file: string, ...args: string[]) =>
    execFileSync(file, args, { encoding: "utf8", env: { HOME: home, PATH: path } });
  expect(run(program, "version")).toBe("svc 0.1.0\n");
  expect(run(join(home, ".local", "bin", "bridge"), "version")).toBe("bridge 0.1.0\n");
  expect(run(join(versions, "current", "bin", "claude"), "--version")).toContain("Claude Code");
  const left = (await names()).map((name) => name.replace(/-\w{6}$/, "")).toSorted();
  expect(left).toEqual([".svc-agent.lock", "0.1.0", "current"]);
  // Nothing of the user's was made but links, lines and this.
  expect((await readdir(home)).toSorted()).toEqual([".bashrc", ".local", ".profile"]);

  // The version in use stays while another one cannot be made: here the store is of another format.
  await write(join(home, ".service", "jobs", ".format"), "7\n");
  const before = await readlink(join(versions, "current"));
  const refused = await startInstall(home).ended;
  expect(refused.stderr).toMatch(
    /refuses the store: [^]*Nothing was installed; an install that is there is as it was/,
  );
  expect(refused.code).toBe(1);
  expect(await readlink(join(versions, "current"))).toBe(before);
  expect((await names()).filter((name) => /-\w{6}$/.test(name))).toEqual([before]);
});

test("the agent CLI that is installed is the newest of those that are supported; pages name the same", async () => {
  const read = (file: string) => readFile(join(root, file), "utf8");
  const agentCli = await read("node_modules/@anthropic-ai/claude-code/package.json");
  expect(JSON.parse(agentCli)).toMatchObject({ version: newestVersion });
  expect(await read("README.md")).toContain(`Claude Code ${newestVersion} `);
  expect(await read("docs/operate/deployment.md")).toContain(`claude-code@${newestVersion} `);
});

test.each([
  [".local", /\.local.*cannot be written to by this user/],
  [".local/share/svc/theirs", /svc holds files of something else \(theirs\): move it away/],
])("where %s is a file it ends with a sentence, at once", async (file, message) => {
  const home = await temporaryDirectory();
  await write(join(home, file), "");
  const { stderr, code } = await startInstall(home).ended;
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(code).toBe(1);
  expect(await readdir(home)).toEqual([".local"]);
});

describe("links", () => {
  /** A home with a version in use, and what else is there: content, or `-> target`. */
  const homeWith = async (files: Record<string, string>) => {
    const home = await temporaryDirectory();
    const current = join(home, ".local/share/svc/current");
    for (const name of ["svc", "bridge"]) await write(join(current, "bin", name), "#!/bin/sh\necho ours\n");
    for (const [file, content] of Object.entries(files)) {
      const place = join(home, file);
      await write(place, content);
      if (!content.startsWith("-> ")) continue;
      await rm(place);
      await symlink(content.slice(3), place);
    }
    return { home, current, link: () => linkPrograms(home, current) };
  };
  const linkOf = (home: string, name: string) => readlink(join(home, ".local/bin", name));

  test.each([
    ["of this install", "-> ../share/svc/current/bin/svc"],
    ["of it before a move, which leads nowhere", "-> /home/before/.local/share/svc/current/bin/svc"],
    ["of the package as npm installs it", "-> ../lib/node_modules/svc-agent/dist/svc.mjs"],
    ["of that after svc update", "-> ../lib/svc-agent/current/dist/svc.mjs"],
  ])("a link %s is replaced", async (_, svc) => {
    vi.stubEnv("PATH", path);
    const { home, link } = await homeWith({ ".local/bin/svc": svc });
    expect((await link()).isSvcLinked).toBe(true);
    expect(await linkOf(home, "svc")).toBe("../share/svc/current/bin/svc");
    expect(execFileSync(join(home, ".local/bin/svc"), { encoding: "utf8" })).toBe("ours\n");
  });

  test.each([["a file"], ["-> /nonexistent/svc"], ["-> ../share/other/current/bin/svc"]])(
    "a foreign one, %j, stays and is named",
    async (content) => {
      vi.stubEnv("PATH", path);
      const { home, current, link } = await homeWith({
        ".local/bin/bridge": content,
        ".local/bin/svc": content,
      });
      const { notes, isSvcLinked } = await link();
      expect(isSvcLinked).toBe(false);
      for (const name of ["svc", "bridge"])
        expect(notes).toContain(
          `${home}/.local/bin/${name} is not of this install, and stays. Use ${current}/bin/${name} instead.`,
        );
      const left = await linkOf(home, "svc").then(
        (target) => `-> ${target}`,
        () => readFile(join(home, ".local/bin/svc"), "utf8"),
      );
      expect(left).toBe(content);
    },
  );

  test("another program of the name is named; one that comes first is as bad as one in the way only for svc", async () => {
    const { home, current, link } = await homeWith({
      "first/bridge": "",
      "later/svc": "",
      "later/bridge": "",
    });
    const bin = join(home, ".local/bin");
    vi.stubEnv("PATH", `${home}/first:${bin}:${home}/later`);
    expect(await link()).toEqual({
      isSvcLinked: true,
      notes: [
        `${bin}/svc now comes before ${home}/later/svc: call that by its whole path.`,
        `${home}/first/bridge comes first on PATH. Use ${current}/bin/bridge instead.`,
      ],
    });
    vi.stubEnv("PATH", `${home}/later:${bin}`);
    expect((await link()).isSvcLinked).toBe(false);
    // A new shell has ours in front.
    vi.stubEnv("PATH", `${home}/later`);
    expect((await link()).isSvcLinked).toBe(true);
  });

  test("in a ~/.local/bin that is itself a link they lead to the same", async () => {
    vi.stubEnv("PATH", path);
    const { home, link } = await homeWith({ "elsewhere/deep/bin/file": "" });
    await symlink(join(home, "elsewhere/deep/bin"), join(home, ".local/bin"));
    await link();
    expect(execFileSync(join(home, ".local/bin/svc"), { encoding: "utf8" })).toBe("ours\n");
  });
});

describe("a new shell finds svc", () => {
  /** Adds lines twice, with this login shell, in a home with these files. Returns what has changed there. */
  const homeAfter = async (shell: string, files: Record<string, string>) => {
    vi.stubEnv("SHELL", shell);
    vi.stubEnv("ZDOTDIR", undefined);
    vi.stubEnv("PATH", path);
    const home = await temporaryDirectory();
    await write(join(home, ".local/bin/svc"), "#!/bin/sh\n");
    for (const [file, content] of Object.entries(files)) await write(join(home, file), content);
    await addPathLines(home);
    await addPathLines(home);
    const names = await readdir(home, { recursive: true });
    const found = await Promise.all(names.map((name) => readFile(join(home, name), "utf8").catch(() => "")));
    const changed = names.filter((_, index) => found[index]?.includes("# svc-agent"));
    for (const content of found) expect(content.match(/# svc-agent/g)?.length ?? 1).toBe(1);
    return { home, changed: changed.toSorted() };
  };
  const whereIs = (home: string, shell: string, ...options: string[]): string =>
    execFileSync(shell, [...options, "command -v svc"], {
      encoding: "utf8",
      env: { HOME: home, PATH: path, TERM: "dumb" },
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();

  const early = "case $- in *i*) ;; *) return ;; esac\nalias l=ls # no newline at the end";
  const own = 'export PATH="$PATH:$HOME/.local/bin"\n';
  test.each([
    ["bash", {}, [".bashrc", ".profile"], ["-ic", "-lc"]],
    ["bash", { ".bashrc": early, ".zshrc": "" }, [".bashrc", ".profile", ".zshrc"], ["-ic", "-lc"]],
    ["bash", { ".bash_profile": "true", ".bashrc": "" }, [".bash_profile", ".bashrc"], ["-ic", "-lc"]],
    ["bash", { ".bashrc": own, ".profile": own }, [], ["-ic", "-lc"]],
    [
      "bash",
      { ".bashrc": "# ~/.local/bin is not on PATH here\n", ".profile": own },
      [".bashrc"],
      ["-ic", "-lc"],
    ],
    ["zsh", {}, [".zprofile", ".zshrc"], ["-ic", "-lc"]],
    ["zsh", { ".bashrc": "", ".zshrc": "path+=(~/.local/bin)\n" }, [".bashrc", ".zprofile"], ["-ic", "-lc"]],
    ["sh", {}, [".profile"], ["-lc"]],
    ["fish", {}, [".config/fish/conf.d/svc-agent.fish"], ["-c"]],
    [
      "bash",
      { ".config/fish/config.fish": "" },
      [".bashrc", ".config/fish/conf.d/svc-agent.fish", ".profile"],
      [],
    ],
  ])("%s, in a home with %j: a line, once, in %j", async (shell, files, expected, options) => {
    const { home, changed } = await homeAfter(`/usr/bin/${shell}`, files);
    expect(changed).toEqual(expected);
    for (const option of options) expect(whereIs(home, shell, option)).toBe(join(home, ".local/bin/svc"));
  });

  test("README's lines remove these, and nothing else, also behind a link and in a home with spaces", async () => {
    const { home } = await homeAfter("/bin/bash", { ".bashrc": early, dotfiles: "true # mine\n" });
    const readme = await readFile(join(root, "README.md"), "utf8");
    const [lines = ""] = /^grep -lsZ [^]*?\n(?=rm )/m.exec(readme) ?? [];
    const other = join(await temporaryDirectory(), "with spaces");
    execFileSync("cp", ["-a", home, other]);
    await symlink("dotfiles", join(other, ".bash_profile"));
    execFileSync("bash", ["-c", `cat .bashrc >> dotfiles; ${lines}`], {
      cwd: other,
      env: { HOME: other, PATH: path },
    });
    expect(await readFile(join(other, ".bashrc"), "utf8")).toBe(`${early}\n`);
    expect(await readFile(join(other, "dotfiles"), "utf8")).toBe(`true # mine\n${early}\n`);
    expect(await readlink(join(other, ".bash_profile"))).toBe("dotfiles");
  });
});

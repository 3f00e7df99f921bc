import { appendFile, mkdir, readFile, stat } from "node:fs/promises";
import { userInfo } from "node:os";
import { basename, dirname, join } from "node:path";
import { pathOfUser } from "./links.ts";

/** README's uninstall removes the lines that end so. */
const mark = "# svc-agent";

/** Both do nothing where the directory is on PATH already. */
const line = `case ":$PATH:" in *":$HOME/.local/bin:"*) ;; *) export PATH="$HOME/.local/bin:$PATH" ;; esac ${mark}`;
const fishLine = `contains -- ~/.local/bin $PATH; or set -gx PATH ~/.local/bin $PATH ${mark}`;

/**
 * Puts ~/.local/bin on the PATH of new shells, after a login or not:
 *
 * | file | gets the line |
 * |---|---|
 * | .profile, .bash_profile, .bash_login, .bashrc, .zprofile, .zshrc | if it is there |
 * | .bashrc; .profile, if bash has no other file for logins | also if the user's shell is bash |
 * | .zprofile, .zshrc | also if it is zsh |
 * | .profile | also if it is another one, such as sh |
 * | .config/fish/conf.d/svc-agent.fish | if fish has settings, or is the user's shell |
 *
 * A file that has the line, or puts the directory on PATH itself, is left as it is.
 * @returns sentences: what was changed, and what to do in this shell
 */
export const addPathLines = async (home: string): Promise<string[]> => {
  const { SHELL: shell, ZDOTDIR: zshHome = home } = process.env;
  const own = basename(shell ?? loginShell());
  const at = (directory: string, ...names: string[]): string[] => names.map((name) => join(directory, name));
  const isThere = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null;

  const bashLogin = at(home, ".bash_profile", ".bash_login", ".profile");
  const zsh = at(zshHome, ".zprofile", ".zshrc");
  const bashrc = join(home, ".bashrc");
  const fish = join(home, ".config", "fish");
  const existing = await Promise.all([...bashLogin, bashrc, ...zsh].map(isThere));
  const files = new Set([...bashLogin, bashrc, ...zsh].filter((_, index) => existing[index]));
  if (own === "bash") files.add(bashrc);
  if (own === "zsh") zsh.forEach((file) => files.add(file));
  else if (own !== "fish" && !bashLogin.some((file) => files.has(file))) files.add(join(home, ".profile"));
  if (own === "fish" || (await isThere(fish))) files.add(join(fish, "conf.d", "svc-agent.fish"));

  const changed: string[] = [];
  const refused: string[] = [];
  for (const file of files)
    await addLine(file).then(
      (isChanged) => (isChanged ? changed.push(file) : 0),
      () => refused.push(file),
    );
  return [
    ...(changed.length > 0 ? [`New shells find svc by a line that was added to ${changed.join(", ")}.`] : []),
    ...refused.map((file) => `${file} cannot be written to. Have it run: ${line}`),
    ...(pathOfUser().includes(join(home, ".local", "bin"))
      ? []
      : [`In this shell run: export PATH="$HOME/.local/bin:$PATH"`]),
  ];
};

const addLine = async (file: string): Promise<boolean> => {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  if (text.includes(mark) || /^[^#\n]*path[^#\n]*\.local\/bin/im.test(text)) return false;
  await mkdir(dirname(file), { recursive: true });
  const before = text === "" || text.endsWith("\n") ? "" : "\n";
  await appendFile(file, `${before}${file.endsWith(".fish") ? fishLine : line}\n`);
  return true;
};

/** Fails for a user without an entry, as in some containers. */
const loginShell = (): string => {
  try {
    return userInfo().shell ?? "sh";
  } catch {
    return "sh";
  }
};

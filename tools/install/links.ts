import { access, constants, lstat, mkdir, readlink, realpath, stat } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { replaceLink } from "../../src/main/update.ts";

/** What is linked below ~/.local, and to which file of a version. */
const links = {
  "bin/svc": "bin/svc",
  "bin/bridge": "bin/bridge",
  "share/man/man1/svc.1": "node_modules/svc-agent/dist/man/svc.1",
  "share/man/man1/bridge.1": "node_modules/svc-agent/dist/man/bridge.1",
};

/**
 * Links the programs and their manual pages below ~/.local. A link of ours is replaced; a foreign file stays.
 * @returns sentences about what stayed, or is hidden by another program of the name
 */
export const linkPrograms = async (
  home: string,
  current: string,
): Promise<{ notes: string[]; isSvcLinked: boolean }> => {
  const local = join(home, ".local");
  const notes: string[] = [];
  const unusable = new Set<string>();
  for (const [link, file] of Object.entries(links)) {
    const path = join(local, link);
    await mkdir(dirname(path), { recursive: true });
    // ~/.local/bin may itself be a link: the new one is relative to where it lies.
    const place = join(await realpath(dirname(path)), link.slice(link.lastIndexOf("/") + 1));
    if (await isForeign(path)) {
      notes.push(`${path} is not of this install, and stays. Use ${join(current, file)} instead.`);
      unusable.add(link);
    } else await replaceLink(place, join(current, file));
  }
  for (const name of ["svc", "bridge"]) {
    const others = unusable.has(`bin/${name}`) ? null : await namesakes(join(local, "bin"), name);
    if (others?.before !== undefined) {
      notes.push(`${others.before} comes first on PATH. Use ${join(current, "bin", name)} instead.`);
      unusable.add(`bin/${name}`);
    } else if (others?.after !== undefined)
      notes.push(
        `${join(local, "bin", name)} now comes before ${others.after}: call that by its whole path.`,
      );
  }
  return { notes, isSvcLinked: !unusable.has("bin/svc") };
};

/** A link of this install, or of the package when npm has installed it, may lead nowhere by now. */
const isOurs = /(^|\/)(svc\/current|node_modules\/svc-agent|lib\/svc-agent)\//;

const isForeign = async (path: string): Promise<boolean> => {
  const found = await lstat(path).catch(() => null);
  return found !== null && !isOurs.test(await readlink(path).catch(() => ""));
};

/** Other programs of this name that a new shell finds before the one in `bin`, and after it. */
const namesakes = async (bin: string, name: string): Promise<{ before?: string; after?: string }> => {
  const directories = pathOfUser();
  if (!directories.includes(bin)) directories.unshift(bin);
  const at = directories.indexOf(bin);
  const own = await realpath(join(bin, name));
  // Where root finds more than others do.
  const later = [...directories.slice(at + 1), "/usr/sbin", "/sbin"];
  const first = async (places: string[]): Promise<string | undefined> => {
    const found = await Promise.all(places.map((place) => otherProgram(join(place, name), own)));
    return found.find((path) => path !== null) ?? undefined;
  };
  const [before, after] = await Promise.all([first(directories.slice(0, at)), first(later)]);
  return { ...(before !== undefined && { before }), ...(after !== undefined && { after }) };
};

const otherProgram = async (path: string, own: string): Promise<string | null> => {
  const real = await realpath(path).catch(() => null);
  if (real === null || real === own || !(await stat(real)).isFile()) return null;
  return await access(real, constants.X_OK).then(
    () => path,
    () => null,
  );
};

/** PATH without what npm and this project have put in front. */
export const pathOfUser = (): string[] =>
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .filter((place) => place !== "" && !/\/node_modules\//.test(place));

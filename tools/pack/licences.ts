import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";

/** The licence texts of these packages, each from the package itself. Fails for a package that has none. */
export const collectLicences = async (packages: readonly string[]): Promise<string> => {
  const entries = await Promise.all([...new Set(packages)].map(entryOf));
  // Two copies of a package at one version are listed once.
  const byName = new Map(entries.map((entry) => [entry.title, entry.text]));
  const sorted = [...byName].toSorted(([one], [other]) => (one < other ? -1 : 1));
  const head = "This program contains the packages below, each under its own licence.\n";
  return [head, ...sorted.map(([title, text]) => `${rule}\n${title}\n${rule}\n\n${text.trim()}\n`)].join(
    "\n",
  );
};

const rule = "-".repeat(80);

type Manifest = { name: string; version: string; license?: string };

const entryOf = async (directory: string): Promise<{ title: string; text: string }> => {
  const manifest = JSON.parse(await readFile(join(directory, "package.json"), "utf8")) as Manifest;
  const title = `${manifest.name} ${manifest.version} (${manifest.license ?? "see below"})`;
  const names = (await readdir(directory)).filter((name) => licenceFile.test(name)).toSorted();
  const texts = await Promise.all(names.map((name) => readFile(join(directory, name), "utf8")));
  if (texts.length === 0) texts.push(...(await ofReadme(directory)));
  if (texts.length === 0) texts.push(...(await ofOurs(manifest.name)));
  // It asks for no text to be passed on.
  if (texts.length === 0 && manifest.license === "Unlicense")
    texts.push("Released into the public domain: https://unlicense.org");
  if (texts.length === 0 && manifest.license === undefined) throw new Error(`${directory} has no licence`);
  if (texts.length === 0)
    texts.push(`The package has no licence file; its manifest says: ${manifest.license}`);
  return { title, text: texts.map((text) => text.replaceAll("\r\n", "\n").trim()).join("\n\n") };
};

/** Some packages have their licence at the end of their page only. */
const ofReadme = async (directory: string): Promise<string[]> => {
  const page = await readFile(join(directory, "README.md"), "utf8").catch(() => "");
  const section = /^#+ licen[cs]e\s*$([^]*?)(?=^#|(?![^]))/im.exec(page)?.[1]?.trim() ?? "";
  return section.includes("Permission is hereby granted") ? [section] : [];
};

/** Some packages leave out their licence: the text that their sources name, with the holder they name. */
const ofOurs = (name: string): Promise<string[]> =>
  readFile(join(import.meta.dirname, `${name}.LICENSE`), "utf8").then(
    (text) => [text],
    () => [],
  );

/** Also what a ready-made bundle says of its own contents, but not that of its other builds. */
const licenceFile = /^(licen[cs]e|copying|notice)([.-].*)?$|^swagger-ui-bundle\.js\.LICENSE\.txt$/i;

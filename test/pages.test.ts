import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { mark } from "../tools/docs.ts";

const root = join(import.meta.dirname, "..");
const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".md"))
  .map((file) => `docs/${file}`);
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "test/fake-agent/README.md",
  "test/fake-model/README.md",
  "test/fake-git-host/README.md",
  ...docs,
];

const longestLine = 120;
/** Pages written by hand: those that tools/docs.ts makes are looked up, not read from top to bottom. */
const longestPage = 250;

const read = (page: string): string => readFileSync(join(root, page), "utf8");

test.each(pages)(
  `%s has lines of at most ${longestLine} columns, and at most ${longestPage} of them`,
  (page) => {
    const lines = read(page).trimEnd().split("\n");
    const wide = lines.flatMap((line, n) => (line.length > longestLine ? `${n + 1}: ${line}` : []));
    expect(wide).toEqual([]);
    expect(lines[0] === mark ? 0 : lines.length).toBeLessThanOrEqual(longestPage);
  },
);

/** The page without its blocks of code. */
const prose = (page: string): string => read(page).replaceAll(/^( *)```[^]*?^\1```$/gm, "");

/** The anchors of a page's headings, as GitHub makes them. */
const anchors = (page: string): string[] =>
  [...prose(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );

const fault = (page: string, link: string): string | null => {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page : relative(root, join(root, dirname(page), path));
  if (!existsSync(join(root, target))) return `${link}: there is no ${target}`;
  return anchor === undefined || anchors(target).includes(anchor) ? null : `${link}: no such heading`;
};

test.each(pages)("%s links to files and headings that exist", (page) => {
  const links = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
  const within = links.filter((link) => !/^[a-z]+:/.test(link));
  expect(within.flatMap((link) => fault(page, link) ?? [])).toEqual([]);
});

test.each(pages)("%s names files of the repository that exist", (page) => {
  const paths = [...read(page).matchAll(/`((?:src|test|tools|deploy|bench|demo|docs)\/[\w./-]+)`/g)];
  const missing = paths.flatMap(([, path = ""]) => (existsSync(join(root, path)) ? [] : path));
  expect(missing).toEqual([]);
});

test("the pages that people write have at most 31,000 words", () => {
  const written = pages.filter(
    (page) => (page === "README.md" || page.startsWith("docs/")) && !page.startsWith("docs/decisions/"),
  );
  const words = written
    .map(read)
    .filter((text) => !text.startsWith(mark))
    .flatMap((text) => text.match(/\S+/g) ?? []);
  expect(words.length).toBeLessThanOrEqual(31_000);
});

const source = join(root, "src");
const rooms = new Set(readdirSync(source));

test("docs/inside/how-it-works.md has a row for each room", () => {
  const rows = [...read("docs/inside/how-it-works.md").matchAll(/^\| `(\w+)` \| .* \|$/gm)].map(
    ([, room]) => room,
  );
  expect(new Set(rows)).toEqual(rooms);
});

test("its diagram has each room in a layer that is not below those it imports", () => {
  const layers = [...read("docs/inside/how-it-works.md").matchAll(/^ \w+ +│(.*)$/gm)];
  const layerOf = new Map(
    layers.flatMap(([, names = ""], n) => [...names.matchAll(/\w+/g)].map(([room]) => [room, n] as const)),
  );
  expect(new Set(layerOf.keys())).toEqual(rooms);
  const upwards = readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !/\.(test|fixture)\.ts$/.test(file))
    .flatMap((file) => {
      const [room = ""] = file.split("/");
      const imports = readFileSync(join(source, file), "utf8").matchAll(
        /(?:from |import\()"(?:\.\.\/)+(\w+)\//g,
      );
      return [...imports].flatMap(([, other = ""]) =>
        (layerOf.get(other) ?? Infinity) < (layerOf.get(room) ?? 0) ? `${file} imports ${other}` : [],
      );
    });
  expect(upwards).toEqual([]);
});

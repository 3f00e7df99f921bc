/** A small change that makes sense: which files, and what they become. */
export type Plan = {
  edits: Edit[];
  reasoning: string;
  /** Shell command that must pass before the commit. */
  check: string | null;
  /** Subject of the commit; no single quotes. */
  commit: string;
  summary: string;
};

/** What the file becomes; the same text when there is nothing left to do. */
type Edit = { path: string; write: (before: string | null) => string };

export type Request = { task: string; files: string[]; project: string };

/** The first recipe that fits the task and the files; the last one fits everything. */
export const planFor = (request: Request): Plan => toCelsius(request) ?? layoutSection(request);

const source = "src/temperature.js";
const test = "test/temperature.test.js";

/** The task of the demonstration (demo/repository.ts has the repository it is about). */
const toCelsius = ({ task, files }: Request): Plan | null => {
  if (!task.includes("toCelsius") || ![source, test].every((path) => files.includes(path))) return null;
  return {
    edits: [
      { path: source, write: addOnce((before) => `${before}\n${celsiusSource}`) },
      { path: test, write: addOnce((before) => `${importCelsius(before)}\n${celsiusTest}`) },
    ],
    reasoning:
      "toFahrenheit is c * 9 / 5 + 32, so the way back is (f - 32) * 5 / 9. A test of known points and of the round trip would catch a mixed-up fraction.",
    check: "node --test",
    commit: "feat: convert Fahrenheit to Celsius",
    summary: `Added \`toCelsius(fahrenheit)\` to ${source} beside \`toFahrenheit\`, with tests of known points and of the round trip. \`node --test\` passes and the change is committed.`,
  };
};

const addOnce =
  (add: (before: string) => string): Edit["write"] =>
  (before) =>
    before?.includes("toCelsius") ? before : add(before ?? "");

const celsiusSource = `/** Degrees Fahrenheit to degrees Celsius. */
export const toCelsius = (fahrenheit) => ((fahrenheit - 32) * 5) / 9;
`;

const celsiusTest = `test("water freezes at 0 degrees Celsius, and at -40 both scales agree", () => {
  assert.equal(toCelsius(32), 0);
  assert.equal(toCelsius(-40), -40);
});

test("toCelsius undoes toFahrenheit", () => assert.equal(toCelsius(toFahrenheit(37)), 37));
`;

/** Adds the name to the import from the module under test. */
const importCelsius = (before: string): string =>
  before.replace(
    /import \{ (.+?) \} from (["']\.\.\/src\/temperature\.js["'])/,
    "import { toCelsius, $1 } from $2",
  );

/** Tells newcomers what lies where: fits any repository. */
const layoutSection = ({ files, project }: Request): Plan => {
  const readme = files.find((path) => /^readme\.md$/i.test(path)) ?? "README.md";
  return {
    edits: [{ path: readme, write: (before) => withSection(before ?? `# ${project}\n`, layout(files)) }],
    reasoning:
      "The task leaves room. A reader of this repository is helped most by knowing what lies where, so I describe the layout in the README.",
    check: null,
    commit: "docs: describe the layout of the repository",
    summary: `Described the layout of the repository in ${readme} (${topLevel(files).length} entries) and committed it. No code was changed.`,
  };
};

const heading = "## Layout";

/** Puts the section at the end, in place of an older one. */
const withSection = (before: string, section: string): string => {
  const old = new RegExp(`\\n*^${heading}$[^]*?(?=^## |$(?![^]))`, "m");
  return `${before.replace(old, "\n").trimEnd()}\n\n${section}`;
};

const layout = (files: string[]): string => {
  const rows = topLevel(files).map(({ name, count }) =>
    name.endsWith("/")
      ? `| \`${name}\` | ${count} ${count === 1 ? "file" : "files"} |`
      : `| \`${name}\` | file |`,
  );
  return `${heading}\n\n${rows.length === 0 ? "Nothing yet.\n" : `| path | what |\n|---|---|\n${rows.join("\n")}\n`}`;
};

const topLevel = (files: string[]): { name: string; count: number }[] => {
  const groups = Object.groupBy(files, (path) => (path.includes("/") ? `${path.split("/")[0]}/` : path));
  return Object.entries(groups).map(([name, members]) => ({ name, count: members?.length ?? 0 }));
};

import { spawnSync } from "node:child_process";
import { mkdir, rename, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { readRefs, writeRefs } from "./clone.ts";
import { smallTextOf } from "./git-directory.ts";
import { checkRef, isRefName } from "./ref.ts";

const marks = ["/", ".", "..", "-", "@", "{", "@{", "~", "^", ":", "?", "*", "[", "\\", " ", "\t"];
const parts = [...marks, "a", "main", ".lock", "\u007f", "\u0085", "é", "HEAD", "refs"];

/** Made of the parts that the rules are about, so that samples match and break each rule. */
const tricky = fc
  .array(fc.constantFrom(...parts), { minLength: 1, maxLength: 6 })
  .map((parts) => parts.join(""));

/** A shell asks git: to start it from here costs five times as much. */
const takenByGit = (refs: string[]): string[] => {
  const ask = 'for ref; do git check-ref-format --branch "$ref" >&2 && printf "%s\\0" "$ref"; done';
  const { stdout } = spawnSync("sh", ["-c", ask, "sh", ...refs], { cwd: "/", encoding: "utf8" });
  return stdout.split("\0").slice(0, -1);
};

test("the check agrees with git check-ref-format --branch", () => {
  const refs = fc.sample(tricky, 150);
  // `@{…}` is looked up in a reflog by git, and a lone HEAD or @ stands for a branch: none of them is a name.
  const names = takenByGit(refs).filter((ref) => ref !== "@" && ref !== "HEAD");
  expect(refs.filter(isRefName)).toEqual(names);
});

test.for([
  "",
  "-x",
  "--upload-pack=x",
  "a..b",
  "a b",
  "a\nb",
  ".a",
  "a.lock",
  "a/",
  "@{-1}",
  "HEAD",
  "refs/heads/main",
  "refs/tags/v1",
  "x".repeat(201),
])("%j is refused with a sentence that names it", (ref) => {
  expect(() => checkRef(ref)).toThrow("is not a name that git takes for a branch or tag");
});

test.for(["main", "release/1.2", "v3.0.0", "feature/ümlaut", "a@b", "refs/x"])("%s is taken", (ref) => {
  expect(() => checkRef(ref)).not.toThrow();
});

test("refs are read anew when git, the service or an agent has changed them, however fast", async () => {
  const directory = await temporaryDirectory();
  const file = join(directory, "packed-refs");
  const line = (nth: number, name: string): string => `${String(nth).repeat(40)} ${name}\n`;
  const others = Array.from({ length: 3000 }, (_, nth) => line(1, `refs/heads/topic-${nth}`)).join("");
  expect(await readRefs(directory, ["refs/heads"])).toEqual(new Map());
  for (const nth of [1, 2, 3, 4]) {
    // As git does it: a new file in the place of the old one, of the same size.
    await writeFile(`${file}.lock`, others + line(nth, "refs/heads/main") + line(nth, "refs/tags/v1"));
    await rename(`${file}.lock`, file);
    const refs = await readRefs(directory, ["refs/heads"]);
    expect([refs.size, refs.get("refs/heads/main")]).toEqual([3001, String(nth).repeat(40)]);
    expect([...(await readRefs(directory, ["refs/tags", "refs/heads/mai"])).keys()]).toEqual([
      "refs/tags/v1",
    ]);
  }
  for (const nth of [5, 6]) {
    // As an agent may: the same file, with its old time.
    const { mtime } = await stat(file);
    await writeFile(
      file,
      line(nth, "refs/heads/main") + line(nth, "refs/heads/ä") + line(nth, "refs/heads/a..b"),
    );
    await utimes(file, mtime, mtime);
    const refs = await readRefs(directory, ["refs"], smallTextOf);
    expect([...refs]).toEqual(["main", "ä"].map((name) => [`refs/heads/${name}`, String(nth).repeat(40)]));
  }
  await mkdir(join(directory, "refs/heads"), { recursive: true });
  await writeFile(join(directory, "refs/heads/main"), "7".repeat(40));
  await writeRefs(directory, new Map([["refs/heads/b", "8".repeat(40)]]), { durable: false });
  await writeFile(join(directory, "refs/heads/main"), "7".repeat(40));
  const refs = await readRefs(directory, ["refs"], smallTextOf);
  expect(Object.fromEntries(refs)).toEqual({
    "refs/heads/b": "8".repeat(40),
    "refs/heads/main": "7".repeat(40),
  });
});

test("more refs than are kept in memory are read whole each time", async () => {
  const directory = await temporaryDirectory();
  const names = Array.from({ length: 110_000 }, (_, nth) => `refs/heads/topic-${nth}`);
  for (const nth of [1, 2, 3]) {
    const id = String(nth).repeat(40);
    await writeFile(join(directory, "packed-refs"), names.map((name) => `${id} ${name}\n`).join(""));
    const refs = await readRefs(directory, ["refs"], smallTextOf);
    expect([refs.size, refs.get("refs/heads/topic-109999")]).toEqual([110_000, id]);
    expect((await readRefs(directory, ["refs"], smallTextOf)).get("refs/heads/topic-0")).toBe(id);
  }
});

import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
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

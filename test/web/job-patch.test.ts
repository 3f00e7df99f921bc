import { describe, expect, test } from "vitest";
import type { ChangedFile } from "../../src/contract/diff.ts";
import { editOf } from "../../web/src/conversation/edits.ts";
import { longestLine, readPatch, shownText } from "../../web/src/job/patch.ts";

const changedFile = (path: string, more: Partial<ChangedFile> = {}): ChangedFile => ({
  path,
  old_path: null,
  status: "modified",
  insertions: 0,
  deletions: 0,
  binary: false,
  size: 100,
  left_out: false,
  ...more,
});

const changed = [
  changedFile("src/date.ts", { insertions: 3, deletions: 2 }),
  changedFile("new name", { old_path: "old name", status: "renamed" }),
  changedFile("link", { status: "type_changed" }),
  changedFile("gone.png", { status: "deleted", binary: true }),
];

test("a file that is left out of the patch is shown with its size, and takes no other file's place", () => {
  const left = changedFile("a-lock.json", { left_out: true, size: 150_000, insertions: 2000 });
  const { files, rows } = readPatch("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n", [
    left,
    changedFile("x"),
  ]);
  expect(files.map(({ path }) => path)).toEqual(["x", "a-lock.json"]);
  expect(rows.at(-1)).toMatchObject({ kind: "note", text: "Too large to be shown: 150,000 bytes" });
  expect(readPatch("", [left]).files).toHaveLength(1);
});

const patch = `diff --git a/src/date.ts b/src/date.ts
index 1111111..2222222 100644
--- a/src/date.ts
+++ b/src/date.ts
@@ -1,3 +1,3 @@ const x
 same
--- no header
+++ no header either
 end
@@ -10 +10,2 @@
-old
\\ No newline at end of file
+new
+more
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/link b/link
deleted file mode 100644
--- a/link
+++ /dev/null
@@ -1 +0,0 @@
-file
diff --git a/link b/link
new file mode 120000
--- /dev/null
+++ b/link
@@ -0,0 +1 @@
+target
diff --git a/gone.png b/gone.png
deleted file mode 100644
GIT binary patch
literal 3
Kabc

literal 0
HcmV?d00001

diff --git a/un listed.txt b/un listed.txt
`;

describe("a patch", () => {
  test("is read as the files that are changed; one that is not listed is named by its heading", () => {
    const { files } = readPatch(patch, changed);
    expect(files.slice(0, 4)).toMatchObject(changed);
    expect(files.slice(4)).toMatchObject([{ path: "un listed.txt", status: "modified" }]);
    expect(files.map(({ row }) => row)).toEqual([0, 11, 12, 17, 18]);
  });

  test("is shown as rows with the line numbers of both sides", () => {
    const shown = readPatch(patch, changed).rows.map(
      ({ kind, before, after, text }) => `${kind} ${before ?? ""}:${after ?? ""} ${text}`,
    );
    expect(shown).toEqual([
      "file : src/date.ts",
      "hunk : @@ -1,3 +1,3 @@ const x",
      "same 1:1 same",
      "deleted 2: -- no header",
      "added :2 ++ no header either",
      "same 3:3 end",
      "hunk : @@ -10 +10,2 @@",
      "deleted 10: old",
      "note : \\ No newline at end of file",
      "added :10 new",
      "added :11 more",
      "file : new name",
      "file : link",
      "hunk : @@ -1 +0,0 @@",
      "deleted 1: file",
      "hunk : @@ -0,0 +1 @@",
      "added :1 target",
      "file : gone.png",
      "file : un listed.txt",
    ]);
  });

  test("shows what would steer a reader, and cuts endless lines", () => {
    const { rows } = readPatch(
      `diff --git a/a b/a\n@@ -0,0 +1,3 @@\n+\u001B[2Jx\u202Ey\n+a\r\n+${"z".repeat(1_000_000)}\n`,
      [],
    );
    const [, , steering = "", returning = "", long = ""] = rows.map(({ text }) => shownText(text));
    expect(steering).toBe("\u{FFFD}[2Jx\u{FFFD}y");
    expect(returning).toBe("a^M");
    expect(long).toHaveLength(longestLine + " … 998,000 more characters".length);
  });

  test.each(["", "\n", "no patch\n+at all\n", "\\ note", "@@ -1 +1 @@\n-a\n+b"])("%j has no rows", (text) => {
    expect(readPatch(text, changed).rows).toEqual([]);
  });

  test("of more lines than a browser can draw only the first are rows", () => {
    const { rows, isCut } = readPatch(
      `diff --git a/x b/x\n@@ -0,0 +1,600000 @@\n${"+\n".repeat(600_000)}`,
      [],
    );
    expect(rows).toHaveLength(500_000);
    expect(isCut).toBe(true);
  });
});

describe("an edit", () => {
  const shown = (input: unknown) => editOf(input)?.lines.map(({ sign, text }) => sign + text);
  const file_path = "/work/a.ts";

  test("shows what differs, with two lines around it", () => {
    const [old_string, new_string] = ["1\n2\n3\nold\n4\n5\n6", "1\n2\n3\nnew\nmore\n4\n5\n6"];
    const expected = [" 2", " 3", "-old", "+new", "+more", " 4", " 5"];
    expect(shown({ file_path, old_string, new_string })).toEqual(expected);
    expect(shown({ file_path, edits: [{ old_string, new_string }, { new_string: "x" }] })).toEqual([
      ...expected,
      "+x",
    ]);
  });

  test("of a whole file are its first lines, and how many are left", () => {
    expect(editOf({ file_path, content: "x\n".repeat(100) })).toMatchObject({ path: file_path, left: 40 });
  });

  test.each([
    null,
    "text",
    7,
    [],
    { file_path: 1 },
    { file_path },
    { file_path, edits: [null] },
    { content: "x" },
  ])("%j is none", (input) => {
    expect(editOf(input)).toBeNull();
  });
});

import { expect, test } from "vitest";
import { furtherId, mainId, repositoryNames } from "./several.ts";

test.each([
  [["https://github.com/acme/app.git"], ["app"]],
  [
    ["https://a.example/x/app", "git@b.example:y/app.git", "/srv/app-2"],
    ["app", "app-2", "app-2-2"],
  ],
  [
    ["https://a.example/x/site.js", "https://a.example/x/..%2f..%2fetc"],
    ["site-js", "2f-2fetc"],
  ],
  [
    ["https://a.example/x/%", `/srv/${"n".repeat(300)}`],
    ["repository", "n".repeat(50)],
  ],
  [
    ["/srv/…", "/srv/-"],
    ["repository", "repository-2"],
  ],
])("the repositories %j are called %j", (urls, names) => {
  expect(repositoryNames(urls)).toEqual(names);
});

test("the id of a worktree beside another one names that", () => {
  const id = "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10";
  expect([mainId(furtherId(id, "app-2")), mainId(id), mainId("other")]).toEqual([id, id, "other"]);
});

import { expect, test } from "vitest";
import { nearest } from "./nearest.ts";

test.each([
  ["prot", "port", "port"],
  ["jbos", "jobs", "jobs"],
  ["reviw", "review", "review"],
  ["SERVICE_API_KEYYS", "SERVICE_API_KEYS", "SERVICE_API_KEYS"],
  ["repo", "repo_url", "repo_url"],
])("%s is near to %s", (typed, known, found) => {
  expect(nearest(typed, [known, "something_else"])).toBe(found);
});

test.each([
  ["diff", "disk"],
  ["nope", "code"],
  ["run", "rm"],
  ["x", "xy"],
])("%s is not near to %s", (typed, known) => {
  expect(nearest(typed, [known])).toBeUndefined();
});

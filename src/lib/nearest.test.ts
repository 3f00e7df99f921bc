import { expect, test } from "vitest";
import { nearest } from "./nearest.ts";

test.each([
  ["prot", "port", "port"],
  ["jbos", "jobs", "jobs"],
  ["reviw", "review", "review"],
  ["SERVICE_API_KEYYS", "SERVICE_API_KEYS", "SERVICE_API_KEYS"],
  ["repo", "repo_url", "repo_url"],
  ["max_paralel", "max_parallel_jobs", "max_parallel_jobs"],
  ["log_levle", "log_level_of_agents", "log_level_of_agents"],
])("%s is near to %s", (typed, known, found) => {
  expect(nearest(typed, [known, "something_else"])).toBe(found);
});

test.each([
  ["diff", "disk"],
  ["nope", "code"],
  ["run", "rm"],
  ["x", "xy"],
  ["max", "memory_of_all"],
  ["port_of", "jobs_dir"],
])("%s is not near to %s", (typed, known) => {
  expect(nearest(typed, [known])).toBeUndefined();
});

import { expect, test } from "vitest";
import { GitError } from "../lib/git.ts";
import { asRepoError } from "./failure.ts";

const { signal } = new AbortController();

/** What becomes of git's words. */
const told = (said: string): string => {
  const error = new GitError(said, { exitCode: 128, ended: "exited", said });
  const failure = asRepoError(error, { reason: "clone_failed", what: "fetch the repository", signal });
  return (failure as Error).message;
};

test("what to do is a line of its own, also after words of ssh, which end in carriage returns", () => {
  const said = "Host key verification failed.\r\nfatal: Could not read from remote repository.";
  expect(told(said)).toMatch(/^.*host key is not known\..*\nWhat to do: Add it to the known_hosts file/);
  expect(told(said)).not.toContain("\r");
});

test("a mistyped host is answered with the one that is meant", () => {
  expect(
    told("fatal: unable to access 'https://gihub.com/a/b/': Could not resolve host: gihub.com"),
  ).toContain("What to do: Did you mean github.com? Check the URL");
  expect(
    told("fatal: unable to access 'https://git.acme.test/a/b/': Could not resolve host: git.acme.test"),
  ).toContain("What to do: Check the URL");
});

import { expect, test } from "vitest";
import { GitError } from "../lib/git.ts";
import { attempt } from "./failure.ts";

const { signal } = new AbortController();

/** What becomes of git's words. */
const told = (said: string): Promise<string> => {
  const error = new GitError(said, { exitCode: 128, ended: "exited", said });
  const failing = attempt({ signal }, "clone_failed", "fetch the repository", () => Promise.reject(error));
  return failing.catch((failure: Error) => failure.message);
};

test("what to do is a line of its own, also after words of ssh, which end in carriage returns", async () => {
  const said = "Host key verification failed.\r\nfatal: Could not read from remote repository.";
  expect(await told(said)).toMatch(
    /^.*host key is not known\..*\nWhat to do: Add it to the known_hosts file/,
  );
  expect(await told(said)).not.toContain("\r");
});

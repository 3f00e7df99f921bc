import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { bothClis } from "../../../test/agent-clis.ts";
import { createSandbox } from "../../sandbox/sandbox.ts";
import { repository, startReal } from "./real-cli.fixture.ts";

const { runWith } = await startReal();

const modes = ["bwrap", "landlock"] as const;

describe.each(bothClis)("$which CLI", ({ cli }) => {
  test.each(modes)(
    "%s: does a small piece of work, with a commit, while the key stays outside",
    async (mode) => {
      const directory = await repository();
      const { outcome } = await runWith(cli)("Describe the layout", {
        directory,
        sandbox: (await createSandbox(mode)).sandbox,
      });
      expect(outcome).toMatchObject({ ok: true, error: null, exitCode: 0 });
      expect(
        execFileSync("git", ["-C", directory, "log", "-1", "--format=%s"], { encoding: "utf8" }),
      ).toContain("docs:");
    },
  );
});

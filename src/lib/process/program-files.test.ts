import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { programFiles } from "./program-files.ts";

afterEach(() => void vi.unstubAllEnvs());

test.each([
  ["of a package, its directory", "lib/node_modules/@scope/cli/dist/cli.js", ["lib/node_modules/@scope/cli"]],
  [
    "of a nested package, that alone",
    "n/node_modules/a/node_modules/b/b.js",
    ["n/node_modules/a/node_modules/b"],
  ],
  ["of a checkout, that", "work/tool/src/cli.js", ["work/tool"]],
  ["of a prefix, bin and lib", ".local/bin/tool", [".local/bin", ".local/lib"]],
  ["of a bin of the user's, that alone", "bin/tool", ["bin"]],
  ["of a directory of its own, that", ".local/share/tool/versions/1.0", [".local/share/tool/versions"]],
  ["in the home itself, the file alone", "tool", ["tool"]],
])("%s is readable, and never the home", async (_what, file, expected) => {
  const home = await temporaryDirectory();
  vi.stubEnv("HOME", home);
  await mkdir(join(home, ".local/lib"), { recursive: true });
  await mkdir(join(home, "work/tool"), { recursive: true });
  for (const place of ["", "work/tool"]) await writeFile(join(home, place, "package.json"), "{}");
  await mkdir(dirname(join(home, file)), { recursive: true });
  await writeFile(join(home, file), "#!/bin/sh\n", { mode: 0o755 });
  await mkdir(join(home, "links"));
  await symlink(join(home, file), join(home, "links", "command"));
  expect(await programFiles(["command"], join(home, "links"))).toEqual({
    readable: expected.map((place) => join(home, place)),
    path: [dirname(join(home, file))],
  });
});

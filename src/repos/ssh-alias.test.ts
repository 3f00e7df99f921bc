import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never } from "./plain-git.fixture.ts";
import { makeRepos } from "./repos.fixture.ts";
import { withoutAlias } from "./ssh-alias.ts";

test.each([
  ["git@github-work:acme/app.git", "git@github.com:acme/app.git"],
  ["ssh://git@github-work/acme/app", "ssh://git@github.com/acme/app"],
  ["ssh://github-work:2222/acme/app", "ssh://github.com:2222/acme/app"],
  ["git@gitlab.example.com:acme/app", "git@gitlab.example.com:acme/app"],
  ["git@broken:acme/app", "git@broken:acme/app"],
  ["https://github-work/acme/app", "https://github-work/acme/app"],
  ["/srv/github-work/app.git", "/srv/github-work/app.git"],
])("%s is at the host that ssh makes of it: %s", async (url, expected) => {
  const ssh = join(await temporaryDirectory(), "a ssh");
  const script = `case "$2 $3" in "-G github-work") echo "hostname github.com";; "-G broken") exit 255;; *) echo "hostname $3";; esac`;
  await writeFile(ssh, `#!/bin/sh\nprintf 'user git\\nport 22\\n'; ${script}\n`, { mode: 0o755 });
  const { settings } = await makeRepos();
  const env = { PATH: process.env["PATH"], GIT_SSH_COMMAND: `"${ssh}" -q` };
  expect(await withoutAlias({ env, settings, signal: never }, url)).toBe(expected);
});

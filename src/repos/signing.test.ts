import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { plainGit } from "./plain-git.fixture.ts";
import { addTo, makeRepos } from "./repos.fixture.ts";
import { requireSigningKey } from "./signing.ts";
import { savedDirOf } from "./repos.ts";

const never = new AbortController().signal;

const makeKey = async (passphrase = ""): Promise<string> => {
  const key = join(await temporaryDirectory(), "key");
  await promisify(execFile)("ssh-keygen", ["-q", "-t", "ed25519", "-N", passphrase, "-f", key]);
  return key;
};

test("the service's commit is signed by the key, and work that is saved is not", async () => {
  const gitSigningKey = await makeKey();
  const { repos } = await makeRepos({ gitSigningKey });
  const worktree = await addTo(repos, null, "11111111-1111-4111-8111-111111111111");
  await writeFile(join(worktree.path, "dirt.txt"), "1\n");
  const { ref } = await repos.salvage(worktree, worktree.worktreeId, never);
  const saved = await plainGit(savedDirOf(worktree.cacheDir), "cat-file", "commit", String(ref));
  expect(saved).not.toContain("gpgsig");
  const tip = await repos.commitAll(worktree, "Signed\n", never);
  const signers = join(await temporaryDirectory(), "signers");
  await writeFile(signers, `svc@localhost ${await readFile(`${gitSigningKey}.pub`, "utf8")}`);
  const said = await promisify(execFile)("git", [
    "-C",
    worktree.path,
    "-c",
    `gpg.ssh.allowedSignersFile=${signers}`,
    "verify-commit",
    tip,
  ]);
  expect(said.stderr).toContain('Good "git" signature for svc@localhost');
});

test("a key that cannot sign is refused with a sentence", async () => {
  const env = { PATH: process.env["PATH"] };
  await expect(requireSigningKey(null, env)).resolves.toBeUndefined();
  await expect(requireSigningKey(await makeKey(), env)).resolves.toBeUndefined();
  for (const key of ["/no/such/key", await makeKey("secret words")])
    await expect(requireSigningKey(key, env)).rejects.toThrow(
      /^SERVICE_GIT_SIGNING_KEY: .* cannot be used to sign/,
    );
});

import { runCommand } from "../lib/command.ts";

/** Configuration with which git signs by this key; null: it does not. */
export const signedBy = (key: string | null): [string, string][] =>
  key === null
    ? []
    : [
        ["gpg.format", "ssh"],
        ["gpg.ssh.program", "ssh-keygen"],
        ["user.signingKey", key],
      ];

/** @throws Error with a sentence for the operator when nothing can be signed with it */
export const requireSigningKey = async (key: string | null, env: NodeJS.ProcessEnv): Promise<void> => {
  if (key === null) return;
  const { exitCode, stderr } = await runCommand({
    command: "ssh-keygen",
    // It asks for no passphrase.
    args: ["-y", "-P", "", "-f", key],
    cwd: "/",
    env: { PATH: env["PATH"] },
    timeoutSeconds: 10,
    signal: AbortSignal.timeout(10_000),
  }).catch((error: unknown) => ({ exitCode: null, stderr: String(error) }));
  if (exitCode === 0) return;
  const why = stderr.trim().split("\n").at(-1)?.slice(0, 200) ?? "";
  throw new Error(
    `SERVICE_GIT_SIGNING_KEY: ${key} cannot be used to sign (${why}); give a private SSH key without a passphrase that the service can read`,
  );
};

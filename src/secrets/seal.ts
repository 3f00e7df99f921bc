import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import type { Secret } from "../contract/secret.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { placeholderBeginning } from "../lib/redact.ts";
import { nonBlocking } from "../lib/non-blocking.ts";

export type KeySettings = { secretsKey: string | null; kvUrl: string | null; jobsDir: string };

const noSharedKey =
  "Secrets in a key-value store need a key that its instances share: set SERVICE_SECRETS_KEY on all of them, to 32 random characters or more";

const keyFileOf = ({ jobsDir }: Pick<KeySettings, "jobsDir">): string => join(jobsDir, "secrets.key");

/**
 * The key that values are sealed with, 32 bytes.
 *
 * | SERVICE_SECRETS_KEY | KV_URL | key                                                          |
 * |---------------------|--------|--------------------------------------------------------------|
 * | set                 |        | made of it                                                   |
 * | not set             | set    | none: `secrets_unavailable`                                  |
 * |                     | not    | `secrets.key` in SERVICE_JOBS_DIR, made when it is first `made` |
 *
 * @throws ServiceError `secrets_unavailable`
 */
export const openKey = async (settings: KeySettings, { make }: { make: boolean }): Promise<Buffer> => {
  if (settings.secretsKey !== null)
    return Buffer.from(hkdfSync("sha256", settings.secretsKey, "", "svc secrets", 32));
  if (settings.kvUrl !== null) throw unavailable(noSharedKey);
  const path = keyFileOf(settings);
  const text = await readFile(path, { encoding: "utf8", flag: nonBlocking.read }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null;
      throw unavailable(`The key of the secrets, ${path}, cannot be read (${error.code})`, error);
    },
  );
  if (text !== null && /^[0-9a-f]{64}\s*$/.test(text)) return Buffer.from(text.trim(), "hex");
  if (text !== null) throw unavailable(`${path} is no key of secrets: put the one back that was there`);
  if (!make)
    throw unavailable(`The key of the secrets, ${path}, is gone: put it back, or set the secrets again`);
  const key = randomBytes(32);
  await writeFileAtomic(path, `${key.toString("hex")}\n`).catch((error: NodeJS.ErrnoException) => {
    throw unavailable(`The key of the secrets, ${path}, cannot be written (${error.code})`, error);
  });
  return key;
};

/** A warning about the key for the operator; null: all is well. */
export const keyProblem = async (settings: KeySettings, hasSecrets: boolean): Promise<string | null> => {
  if (settings.secretsKey !== null) return null;
  if (settings.kvUrl !== null) return noSharedKey;
  const path = keyFileOf(settings);
  const found = await stat(path).catch(() => null);
  if (found === null) return hasSecrets ? `${path} is gone: no secret can be read. Put it back` : null;
  if ((found.mode & 0o077) === 0) return null;
  return `${path} can be read by others (mode ${(found.mode & 0o777).toString(8)}): chmod 600 ${path}`;
};

const unavailable = (message: string, cause?: unknown): ServiceError =>
  new ServiceError("secrets_unavailable", message, { cause, retryAfter: 60 });

/** The facts that stand with a value and cannot be changed without it. Without hosts it is plain in any case. */
const about = ({ name, repo, phase, hosts, header, plain, branches }: Secret): Buffer => {
  const more = (plain && hosts.length > 0) || branches.length > 0 ? [plain, branches] : [];
  return Buffer.from(JSON.stringify([name, repo, phase, hosts, header, ...more]));
};

const [ivBytes, tagBytes] = [12, 16];

/** AES-256-GCM, base64 of IV, tag and text. */
export const seal = (key: Buffer, secret: Secret, value: string): string => {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(about(secret));
  const text = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), text]).toString("base64");
};

/** @throws ServiceError `secrets_unavailable` when it was sealed with another key, or changed */
export const unseal = (key: Buffer, secret: Secret & { sealed: string }): string => {
  const bytes = Buffer.from(secret.sealed, "base64");
  try {
    const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, ivBytes))
      .setAAD(about(secret))
      .setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
    const text = decipher.update(bytes.subarray(ivBytes + tagBytes));
    return Buffer.concat([text, decipher.final()]).toString("utf8");
  } catch (cause) {
    const { name, repo, phase } = secret;
    const message = `The secret ${name} of ${repo} (${phase}) was stored with another key: put that back, or set the secret again`;
    throw unavailable(message, cause);
  }
};

/** What a job's agent has in the place of a value: the same at each start of it, and of no use elsewhere. */
export const placeholderOf = (key: Buffer, jobId: string, { name, repo }: Secret): string =>
  `${placeholderBeginning}${createHmac("sha256", key)
    .update(JSON.stringify(["placeholder", jobId, name, repo]))
    .digest("hex")
    .slice(0, 40)}`;

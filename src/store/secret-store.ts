import { hash } from "node:crypto";
import { z } from "zod";
import { Secret, type SecretIdentity, type SecretPhase, secretPhases } from "../contract/secret.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

/** `sealed`: the value, encrypted, in base64: see `secrets/seal.ts`. */
const SecretRecord = Secret.extend({ sealed: z.base64() });
export type SecretRecord = z.infer<typeof SecretRecord>;

const idOf = ({ name, repo, phase }: SecretIdentity): string =>
  hash("sha256", JSON.stringify([name, repo, phase]));

/** A file each, or `{prefix:j}:secret:{digest}`; an index per phase. */
export const secretKind: Kind<SecretRecord> = {
  noun: "secret",
  key: "secret",
  isId: (id) => /^[0-9a-f]{64}$/.test(id),
  parse: parseWith(SecretRecord, (record, id) => idOf(record) === id),
  entries: ({ phase, created_at }) => [{ index: indexOf(phase), at: Date.parse(created_at) }],
};

const indexOf = (phase: SecretPhase): string => `secrets-${phase}`;
export const secretIndexes = secretPhases.map(indexOf);

/** Secrets with sealed values. Rejects with `ServiceError("store_unavailable")`. */
export const createSecretStore = (records: Records<SecretRecord>) => {
  const ofPhase = async (phase: SecretPhase): Promise<SecretRecord[]> => {
    const all = await records.list(indexOf(phase));
    return (await Promise.all(all.map(({ id }) => records.get(id)))).filter((record) => record !== null);
  };
  return {
    ofPhase,
    all: async (): Promise<SecretRecord[]> => (await Promise.all(secretPhases.map(ofPhase))).flat(),
    put: async (record: SecretRecord): Promise<void> =>
      void (await records.change(idOf(record), () => record)),
    /** The removed one; null: there was none. */
    remove: async (identity: SecretIdentity): Promise<SecretRecord | null> => {
      let removed: SecretRecord | null = null;
      await records.change(idOf(identity), (current) => {
        removed = current;
        return null;
      });
      return removed;
    },
  };
};

export type SecretStore = ReturnType<typeof createSecretStore>;

import type { Secret } from "../contract/secret.ts";
import { list } from "./columns.ts";
import type { Layout } from "./paint.ts";
import { oneLine } from "./sanitise.ts";

export const secretName = ({ name, repo, phase }: Secret): string =>
  `Secret ${name} of ${oneLine(repo)} (${phase})`;

export const secretTable = (secrets: readonly Secret[], layout: Layout): string =>
  list(
    secrets,
    [
      ["NAME", ({ name }) => name],
      ["PHASE", ({ phase }) => phase],
      ["REPOSITORY", ({ repo }) => oneLine(repo)],
      ["SET", ({ created_at: at }) => at.slice(0, 10), { leaves: 2 }],
      ["HOSTS", (secret) => oneLine(secretHosts(secret)), { leaves: 1 }],
    ],
    { empty: "No secrets", ...layout },
  );

/** Where its value goes; `plain`: to commands, too. */
export const secretHosts = ({ hosts, header, plain, branches }: Secret): string =>
  [...(plain ? ["plain"] : []), ...hosts].join(", ") +
  (header === null ? "" : ` (${header})`) +
  (branches.length === 0 ? "" : ` on ${branches.join(", ")}`);

export const secretStored = (secret: Secret): string =>
  `${secret.plain ? "Code that runs with this secret can learn it: it is plain. " : ""}${secretName(secret)} is stored`;

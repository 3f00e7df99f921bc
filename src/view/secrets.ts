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

export const secretHosts = ({ hosts, header }: Secret): string =>
  hosts.length === 0 ? "–" : `${hosts.join(", ")}${header === null ? "" : ` (${header})`}`;

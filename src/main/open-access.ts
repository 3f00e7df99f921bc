import { readFile } from "node:fs/promises";
import type { Settings } from "../config/variables.ts";

/** A sentence where other people have accounts on this machine, and no key keeps them from the service; null otherwise. */
export const openToAccounts = async ({ apiKeys }: Pick<Settings, "apiKeys">): Promise<string | null> => {
  if (apiKeys.length > 0) return null;
  const accounts = loginAccounts(await readFile("/etc/passwd", "utf8").catch(() => ""));
  if (accounts.length === 0) return null;
  const others = accounts.length > 3 ? ` and ${accounts.length - 3} more` : "";
  return `SERVICE_API_KEYS is not set: each account of this machine (${accounts.slice(0, 3).join(", ")}${others}) may use the service, run jobs as its user and set secrets. Set it if others than you have one`;
};

/** Names of the accounts in a passwd file that people log in to, besides that of this process. */
const loginAccounts = (passwd: string): string[] =>
  passwd.split("\n").flatMap((line) => {
    const [name = "", , uid = "", , , , shell = ""] = line.split(":");
    const isOther = Number(uid) >= 1000 && Number(uid) !== process.getuid?.();
    return isOther && !/\/(nologin|false|true|sync)$/.test(shell) ? [name] : [];
  });

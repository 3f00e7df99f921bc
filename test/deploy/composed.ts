import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { deploy } from "./rendered.ts";

type ComposeService = {
  image: string;
  user?: string;
  command?: string[];
  profiles?: string[];
  environment?: Record<string, string>;
  env_file?: string;
  ports?: string[];
  volumes?: string[];
  networks?: string[];
  network_mode?: string;
  hostname?: string;
  privileged?: boolean;
  read_only?: boolean;
  cap_drop?: string[];
  cap_add?: string[];
  security_opt?: string[];
  tmpfs?: string[];
  stop_grace_period?: string;
  mem_limit?: string;
  pids_limit?: number;
};

export type Compose = {
  name: string;
  services: Record<string, ComposeService>;
  networks: Record<string, { internal?: boolean }>;
  volumes: Record<string, unknown>;
};

/** The Compose file with these variables put in, as `docker compose` does it: `${NAME:?why}`, `${NAME:-default}`, `$$`. */
export const readCompose = async (values: Record<string, string>): Promise<Compose> => {
  const text = await readFile(join(deploy, "compose", "compose.yaml"), "utf8");
  const filled = text.replace(
    /\$\$|\$\{(\w+):([?-])([^}]*)\}/g,
    (all, name: string | undefined, kind: string, rest: string) => {
      if (name === undefined) return "$";
      const value = values[name] ?? "";
      if (value !== "") return value;
      if (kind === "?") throw new Error(`${name}: ${rest}`);
      return rest === "" && kind !== "-" ? all : rest;
    },
  );
  return parse(filled, { merge: true }) as Compose;
};

/** The names that are set in an example of an environment file, all without values worth keeping secret. */
export const namesIn = async (file: string): Promise<Record<string, string>> => {
  const text = await readFile(join(deploy, "compose", file), "utf8");
  return Object.fromEntries(
    text
      .split("\n")
      .filter((line) => /^\w+=/.test(line))
      .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
};

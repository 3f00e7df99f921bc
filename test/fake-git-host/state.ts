import { randomBytes } from "node:crypto";
import type { App } from "./apps.ts";
import type { Refusals } from "./refusals.ts";
import { HostError } from "./host-error.ts";

export type Owner = { id: number; login: string; kind: "User" | "Organization" };

export type Repository = {
  id: number;
  owner: string;
  name: string;
  private: boolean;
  defaultBranch: string;
  /** The bare repository, absolute. */
  directory: string;
  /** Clone URL over https. */
  url: string;
};

export type PullRequest = {
  number: number;
  owner: string;
  repository: string;
  title: string;
  body: string;
  head: string;
  base: string;
  draft: boolean;
  state: "OPEN" | "CLOSED" | "MERGED";
  author: string;
  url: string;
  createdAt: string;
};

export type Token = {
  value: string;
  login: string;
  access: "read" | "write";
  /** Full names this token reaches; null: all. */
  repositories: string[] | null;
  /** Milliseconds since the epoch; null: never. */
  expiresAt: number | null;
};

/** Everything the stand-in knows. Plain data, changed by its doors and readable by tests. */
export type State = {
  host: string;
  origin: string;
  root: string;
  owners: Map<string, Owner>;
  repositories: Map<string, Repository>;
  pullRequests: PullRequest[];
  tokens: Map<string, Token>;
  apps: Map<string, App>;
  refusals: Refusals;
};

export const fullName = (owner: string, name: string): string => `${owner}/${name}`.toLowerCase();

export const addOwner = (state: State, login: string, kind: Owner["kind"]): Owner => {
  const owner = { id: state.owners.size + 1, login, kind };
  state.owners.set(login.toLowerCase(), owner);
  return owner;
};

export const addToken = (
  state: State,
  { login = "robot", access = "write", repositories = null, expiresAt = null, value }: Partial<Token> = {},
): Token => {
  const token = {
    value: value ?? `ghp_${randomBytes(18).toString("hex")}`,
    login,
    access,
    repositories,
    expiresAt,
  };
  state.tokens.set(token.value, token);
  if (!state.owners.has(login.toLowerCase())) addOwner(state, login, "User");
  return token;
};

/** Whether the token (null: anonymous) may read or write the repository. */
export const may = (token: Token | null, access: Token["access"], repository: Repository): boolean => {
  if (access === "read" && !repository.private) return true;
  if (token === null || (access === "write" && token.access === "read")) return false;
  return (
    token.repositories === null || token.repositories.includes(fullName(repository.owner, repository.name))
  );
};

/** The repository, as this token may see it. @throws HostError 404, also for a private one that it must not know of */
export const visibleRepository = (state: State, token: Token | null, name: string): Repository => {
  const repository = state.repositories.get(name.toLowerCase());
  if (!repository || !may(token, "read", repository))
    throw new HostError(404, `Could not resolve to a Repository with the name '${name}'.`);
  return repository;
};
